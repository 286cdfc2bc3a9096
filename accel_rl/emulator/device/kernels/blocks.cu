// The kernel `step_blocks` does the same as `step` (kernels.cu) for a single game, whose ROM is compiled into the
// kernel as blocks (blocks.h).
// | kernel         grid        block   shared memory
// | step_blocks    n / lanes   32      the ROM
#ifndef BLOCKS
#define BLOCKS "blocks.inc"
#endif
#include "blocks.h"

namespace accel {

constexpr u32 ALL_LANES = 0xFFFFFFFF, NONE_GOES = 0xFFFFFFFF;

struct BlockWarp {
    BlockLane& lane;
    SettlingPace pace;

    template <class Function>
    __device__ void each(Function function) {
        function(lane);
    }
    __device__ void run_frame() {
        pace.begin_frame();
        BlockCpu cpu = lane.cpu();  // No called function receives the copy's address, so that it stays in registers.
        for (;;) {
            for (;;) {
                const bool goes = cpu.goes();
                const u32 least = __reduce_min_sync(ALL_LANES, goes ? u32(cpu.cycle) << 5 | threadIdx.x : NONE_GOES);
                if (least == NONE_GOES) break;
                const u32 now = __shfl_sync(ALL_LANES, cpu.block, int(least & 31));
                if (goes && cpu.block == now) lane.run_block(cpu, now);
                __syncwarp();
            }
            if (!__any_sync(ALL_LANES, lane.end_line(cpu))) break;
            if (pace.is_due(__any_sync(ALL_LANES, lane.has_looked()))) lane.settle_writes();
        }
        lane.cpu() = cpu;
    }
};

}  // namespace accel

using namespace accel;

extern "C" __global__ void __launch_bounds__(32, 12) step_blocks(const __grid_constant__ StepArguments a) {
    extern __shared__ __align__(16) u32 shared[];
    const u32 words = (a.tables.rom_bytes + 2 + 3) / 4;
    for (u32 at = threadIdx.x; at < words; at += 32) shared[at] = reinterpret_cast<const u32*>(a.tables.rom)[at];
    __syncthreads();
    const Program program{reinterpret_cast<const u8*>(shared), nullptr, nullptr};
    const u32 lanes = (a.envs.n + gridDim.x - 1) / gridDim.x;
    BlockLane lane(a, program, threadIdx.x < lanes ? blockIdx.x * lanes + threadIdx.x : a.envs.n);
    BlockWarp warp{lane, {}};
    step_warp<BlockLane>(warp, a.rules.frame_skip);
}
