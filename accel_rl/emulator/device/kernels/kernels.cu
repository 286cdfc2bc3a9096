// The emulator's GPU kernels. The kernels' code is in headers, which are also compiled for CPUs (host.h).
// | kernel    grid        block   shared memory
// | step      n / lanes   32      the stages, the ROM and its code
// | rows      2n / 32     32      -
// | draw      n           64      bands of two pictures
// | finish    any         1       -
// | begin     n           64      -
#include "begin.h"
#include "draw.h"
#include "finish.h"
#include "step.h"

namespace accel {

struct DeviceWarp {
    Lane& lane;
    const Program& program;
    SettlingPace pace;

    template <class Function>
    __device__ void each(Function function) {
        function(lane);
    }
    template <class Function>
    __device__ bool any(Function function) {
        return __any_sync(0xFFFFFFFFu, function(lane));
    }
    __device__ void run_frame() { run_lines(*this, program); }
};

struct DeviceBlock {
    __device__ u32 thread() const { return threadIdx.x; }
    __device__ u32 threads() const { return blockDim.x; }
    __device__ void meet() { __syncthreads(); }
};

struct DrawingBlock : DeviceBlock {
    u32* band;

    __device__ DrawingBlock(u32* shared) : band(shared) {}
    __device__ u32* memory() const { return band; }
};

}  // namespace accel

using namespace accel;

extern "C" __global__ void __launch_bounds__(32, 12) step(const __grid_constant__ StepArguments a) {
    extern __shared__ __align__(16) u32 shared[];
    Stages* const stages = reinterpret_cast<Stages*>(shared);
    u32* const rom = shared + 256;
    const u32 words = (a.tables.rom_bytes + 2 + 3) / 4;
    for (u32 at = threadIdx.x; at < 256; at += 32) stages[at] = a.tables.stages[at];
    for (u32 at = threadIdx.x; at < words; at += 32) {
        rom[at] = reinterpret_cast<const u32*>(a.tables.rom)[at];
        rom[words + at] = reinterpret_cast<const u32*>(a.tables.code)[at];
    }
    __syncthreads();
    const Program program{reinterpret_cast<const u8*>(rom), reinterpret_cast<const u8*>(rom + words), stages};
    // A small number of environments is spread over more warps, because warps with fewer lanes diverge less. Lanes from
    // `lanes` on have no environment.
    const u32 lanes = (a.envs.n + gridDim.x - 1) / gridDim.x;
    Lane lane(a, program, threadIdx.x < lanes ? blockIdx.x * lanes + threadIdx.x : a.envs.n);
    DeviceWarp warp{lane, program, {}};
    step_warp<Lane>(warp, a.rules.frame_skip);
}

extern "C" __global__ void __launch_bounds__(32) rows(const __grid_constant__ StepArguments a) {
    const u32 picture = blockIdx.x * 32 + threadIdx.x;
    if (picture < 2 * a.envs.n) record_rows(a, picture % a.envs.n, picture / a.envs.n);
}

extern "C" __global__ void __launch_bounds__(64, 8) draw(const __grid_constant__ StepArguments a) {
    extern __shared__ __align__(16) u32 shared[];
    DrawingBlock block(shared);
    draw_block(a, blockIdx.x, block);
}

extern "C" __global__ void __launch_bounds__(1, 1) finish(const __grid_constant__ StepArguments a, FinishScratch* scratch) {
    finish_steps(a, scratch, blockIdx.x, gridDim.x);
}

extern "C" __global__ void __launch_bounds__(64) begin(const __grid_constant__ StepArguments a, u32 all) {
    DeviceBlock block;
    begin_block(a, blockIdx.x, all != 0, block);
}
