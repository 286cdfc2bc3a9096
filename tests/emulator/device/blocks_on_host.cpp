// Runs a game's compiled blocks (BLOCKS) in warps of 32 lanes on a CPU. Compares the lanes that run blocks with lanes
// of the kernel for all games, and counts the operations that a GPU would execute.
// | each frame     Lane: scan line by scan line         BlockLane: block by block, as kernels/blocks.cu chooses them
// | afterwards     the console, the log, the reward and what is shown must be equal in each environment
#include <algorithm>
#include <optional>

#include "../../../accel_rl/emulator/device/kernels/blocks.h"

namespace accel {

struct Counts {
    u64 frames;                 // of warps
    u64 dispatches, issued;     // blocks, and instructions of the lane that executed most of them in a block
    u64 instructions;           // of all lanes
    u64 slow_dispatches, slow;  // choices of no block, and runs of the plain interpreter by all lanes
    u64 stages;                 // iterations of warps of the host build
    u64 writes;
    u64 compared, differing;  // frames of environments
};

// Makes the protected members of a lane accessible.
template <class Base>
struct Open : Base {
    using Base::Base;
    using Base::bus_, Base::cpu_, Base::env_, Base::gives_up_, Base::plays_, Base::reward_, Base::shown_;
};

struct StagedWarp {
    std::optional<Open<Lane>> lanes[32];
    const Program& program;
    Counts& counts;

    template <class Function>
    bool any(Function function) {
        bool result = false;
        u32 most = 0;
        for (auto& lane : lanes) {
            const u32 before = lane->counts().iterations;
            result |= function(*lane);
            most = std::max(most, lane->counts().iterations - before);
        }
        counts.stages += most;
        return result;
    }
    template <class Function>
    void each(Function function) {
        for (auto& lane : lanes) function(*lane);
    }
    void run_frame() { run_lines(*this, program); }

    SettlingPace pace;
};

struct BlockWarp {
    std::optional<Open<BlockLane>> lanes[32];
    Counts& counts;
    SettlingPace pace;

    // Returns the running lane whose 6507 has the smallest cycle, or null if no lane runs.
    Open<BlockLane>* least() {
        Open<BlockLane>* result = nullptr;
        for (auto& lane : lanes)
            if (lane->cpu_.goes() && (!result || lane->cpu_.cycle < result->cpu_.cycle)) result = &*lane;
        return result;
    }
    void run_block(u32 now) {
        u32 most = 0;
        for (auto& lane : lanes) {
            if (!lane->cpu_.goes() || lane->cpu_.block != now) continue;
            BlockCpu cpu = lane->cpu_;
            cpu.iterations = cpu.slow = 0;
            lane->run_block(cpu, now);
            most = std::max(most, cpu.iterations);
            counts.instructions += cpu.iterations, counts.slow += cpu.slow;
            lane->cpu_ = cpu;
        }
        counts.dispatches++, counts.issued += most, counts.slow_dispatches += now == NO_BLOCK;
    }
    void run_frame() {
        pace.begin_frame();
        for (bool any = true; any;) {
            while (Open<BlockLane>* const chosen = least()) run_block(chosen->cpu_.block);
            any = false;
            bool looked = false;
            for (auto& lane : lanes) any |= lane->end_line(lane->cpu_), looked |= lane->has_looked();
            if (any && pace.is_due(looked))
                for (auto& lane : lanes) lane->settle_writes();
        }
    }
};

static bool equal(const Open<Lane>& x, const Open<BlockLane>& y) {
    if (x.plays_ != y.plays_ || x.gives_up_ != y.gives_up_ || x.reward_ != y.reward_ || x.shown_ != y.shown_) return false;
    const FastLog &log = x.bus_.log, &other = y.bus_.log;
    return !x.plays_ || (!bytes_differ(&x.env_.play, &y.env_.play, sizeof(Play)) && log.count == other.count &&
                         !bytes_differ(log.writes, other.writes, sizeof(FastWrite) * log.count));
}

// Plays one agent step of `lanes` environments in a warp of the kernel for all games, and in a warp that runs blocks.
static void play(const StepArguments& staged, const StepArguments& blocks, u32 first, u32 lanes, Counts& counts) {
    const Program program{blocks.tables.rom, blocks.tables.code, blocks.tables.stages};
    StagedWarp warp{{}, program, counts, {}};
    BlockWarp block_warp{{}, counts, {}};
    for (u32 k = 0; k < 32; k++) {
        const u32 i = k < lanes ? first + k : blocks.envs.n;
        warp.lanes[k].emplace(staged, program, i);
        block_warp.lanes[k].emplace(blocks, program, i);
    }
    const auto each = [&](auto function) {
        for (u32 k = 0; k < 32; k++) function(*warp.lanes[k]), function(*block_warp.lanes[k]);
    };
    each([](auto& lane) { lane.load(); });
    for (u32 frame = 0; frame < blocks.rules.frame_skip; frame++) {
        each([frame](auto& lane) { lane.begin_frame(frame); });
        warp.run_frame();
        block_warp.run_frame();
        each([frame](auto& lane) { lane.end_frame(frame); });
        counts.frames++;
        for (u32 k = 0; k < lanes && first + k < blocks.envs.n; k++) {
            counts.compared++, counts.differing += !equal(*warp.lanes[k], *block_warp.lanes[k]);
            counts.writes += block_warp.lanes[k]->bus_.log.count;
        }
    }
    each([](auto& lane) { lane.store(); });
}

}  // namespace accel

extern "C" void play_both(const accel::StepArguments* staged, const accel::StepArguments* blocks, accel::Counts* counts,
                          accel::u32 lanes) {
    for (accel::u32 first = 0; first < blocks->envs.n; first += lanes) accel::play(*staged, *blocks, first, lanes, *counts);
}
