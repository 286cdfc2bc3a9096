// The GPU kernels compiled for CPUs, for machines without a GPU and for tests. Loops run the threads one after another.
// | on a GPU     all lanes of a warp run a phase (a scan line), and meet
// | here         one lane after the other runs the phase
#pragma once
#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "../decoded_rom.h"
#include "kernels/begin.h"
#include "kernels/draw.h"
#include "kernels/finish.h"
#include "kernels/step.h"

namespace accel {

// The draw kernel reads `frame_clock` and `writes` of a Shot at the asserted offsets.
static_assert(offsetof(Shot, tia.frame_clock) == 0 && offsetof(Shot, writes) == sizeof(Tia), "the layout of a shot");

struct HostWarp {
    std::optional<Lane> lanes[32];
    const Program& program;

    template <class Function>
    void each(Function function) {
        for (auto& lane : lanes) function(*lane);
    }
    template <class Function>
    bool any(Function function) {
        bool result = false;
        u32 most = 0;
        u64 slow_ones = 0;
        for (auto& lane : lanes) {
            const u32 before = lane->counts().iterations;
            result |= function(*lane);
            if (const u32 made = lane->counts().iterations - before) {
                most = std::max(most, made);
                slow_ones |= lane->counts().slow;
            }
        }
        iterations += most;
        slow += u32(std::bitset<64>(slow_ones).count());
        return result;
    }
    void run_frame() { run_lines(*this, program); }

    u64 iterations = 0, slow = 0;
    SettlingPace pace;
};

struct HostBlock {
    u32 thread() const { return 0; }
    u32 threads() const { return 1; }
    void meet() {}
};

struct HostDrawing : HostBlock {
    u32 band[BAND_BYTES / 4];

    u32* memory() { return band; }
};

// Counts of iterations of the instruction loop: by warps, by all lanes, and by warps in which a lane needed the plain
// interpreter.
struct Divergence {
    u64 warps, lanes, slow;
};

inline Divergence host_step(const StepArguments& a) {
    const Program program{a.tables.rom, a.tables.code, a.tables.stages};
    Divergence total{0, 0, 0};
    for (u32 first = 0; first < a.envs.n; first += 32) {
        HostWarp warp{{}, program};
        for (u32 k = 0; k < 32; k++) warp.lanes[k].emplace(a, program, first + k);
        step_warp<Lane>(warp, a.rules.frame_skip);
        total.warps += warp.iterations;
        total.slow += warp.slow;
        for (auto& lane : warp.lanes) total.lanes += lane->counts().iterations;
    }
    return total;
}

inline void host_draw(const StepArguments& a) {
    HostDrawing block;
    for (u32 i = 0; i < a.envs.n; i++) {
        for (u32 slot = 0; slot < 2; slot++) record_rows(a, i, slot);
        draw_block(a, i, block);
    }
}

inline void host_finish(const StepArguments& a) {
    static thread_local std::vector<FinishScratch> scratch(1);
    finish_steps(a, scratch.data(), 0, 1);
}

inline void host_begin(const StepArguments& a, bool all) {
    HostBlock block;
    for (u32 i = 0; i < a.envs.n; i++) begin_block(a, i, all, block);
}

// For a start state in the middle of a frame, returns the console at the end of the frame, or the start state if the
// end depends on the action.
inline State continued_start(const Play& start, const Rom& rom, const Game& game) {
    const auto input = [&](State s, u32 action) {
        set_inputs(s, game, played_action(game, action), NO_SWITCH, start.difficulty);
        return s;
    };
    const auto ended = [&](u32 action) {
        State s = input(start.state, action);
        TiaLog log{};
        const Picture unseen{nullptr, game.first_line, game.height, game.hmove_blanks != 0};
        Console console{s, rom, unseen, last_line_of(game), log, false};
        console.run_frame(nullptr, false);
        return s;
    };
    const State end = ended(0);
    for (u32 action = 1; action < ACTIONS; action++) {
        const State other = ended(action), same = input(end, action);
        if (bytes_differ(&other, &same, sizeof same)) return start.state;
    }
    return end;
}

// Returns continued_start of all start states, [starts, STATE_WORDS], or "" if none is in the middle of a frame.
inline std::string continued_starts(const std::string& envs, const Rom& rom, const Game& game) {
    const size_t starts = envs.size() / sizeof(Env);
    std::string result(starts * sizeof(State), 0);
    bool any = false;
    for (size_t i = 0; i < starts; i++) {
        Env env;
        std::memcpy(static_cast<void*>(&env), &envs[i * sizeof env], sizeof env);
        if (!env.play.state.partial) continue;
        const State end = continued_start(env.play, rom, game);
        std::memcpy(&result[i * sizeof end], &end, sizeof end);
        any = true;
    }
    return any ? result : "";
}

// Returns a copy of a ROM in which polling loops are marked (see Program).
inline std::string program_code(const std::string& rom, CartridgeKind kind) {
    std::string code = rom;
    std::vector<u32> ops(rom.size() + RAM_OPS);
    fast_decode(ops.data(), rom_of(reinterpret_cast<const u8*>(rom.data()), kind));
    for (size_t at = 0; at < rom.size(); at++) {
        if ((ops[at] & 0xFFFF) == FAST_POLL) code[at] = char(POLL_CODE);
        else if (u8(code[at]) == POLL_CODE) code[at] = char(UNDOCUMENTED);
    }
    return code;
}

}  // namespace accel
