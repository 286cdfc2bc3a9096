// The step kernel plays an agent step of 32 environments, one on each lane of a warp.
// | for each frame     begin_frame on all lanes
// |                    run_line on all lanes, until no lane's frame goes on
// |                    end_frame on all lanes
//
// If the fast core cannot run a frame, the lane leaves its environment unchanged, and the kernel `finish` repeats the
// step. The fast core cannot start in the middle of a frame. Because Qbert's start states without no-ops lie in the
// middle of a frame, a table has the consoles at the end of this frame.
#pragma once
#include "envs.h"

namespace accel {

// Plays an agent step of one environment on one lane. `Cpu` is LaneCpu, or the BlockCpu of one game (blocks.h).
template <class Cpu>
class LaneOf {
  public:
    HD LaneOf(const StepArguments& arguments, const Program& program, u32 index)
        : a_(arguments), i_(index),
          bus_{env_.play.state,
               Rom{},
               0,
               0,
               last_line_of(*arguments.tables.game),
               LaneTia{env_.play.state.tia, arguments.tables.game->first_line, arguments.tables.game->height}} {
        bus_.insert(rom_of(program.rom, arguments.tables.kind));
    }

    HD void load() {
        plays_ = false;
        if (i_ >= a_.envs.n) return;
        load_words(env_, a_.envs.envs, a_.envs.n, i_);
        const long long chosen = a_.action[i_];
        damaged_ = damage_of(env_.play, bus_.rom) || env_.episode.held >= ACTIONS;
        plays_ = chosen >= 0 && !damaged_;
        skipped_ = !plays_;
        action_ = plays_ ? u32(a_.codes[chosen]) : 0;
        gives_up_ = false;
        reward_ = 0;
        shown_ = SHOWS_ZEROS;
        if (plays_ && env_.play.progress.over) give_up();
    }

    HD void begin_frame(u32 frame) {
        cpu_.end = ABANDONED;
        cpu_.line_end = 0;
        if (!plays_) return;
        State& s = env_.play.state;
        const bool continues = s.partial;
        if (continues ? !continue_start(frame) : s.cycle > MOST_CYCLES) return give_up();
        if (draw(frame) >= a_.rules.repeat_probability) env_.episode.held = action_;
        env_.play.last_action = u8(env_.episode.held);
        const Game& game = *a_.tables.game;
        set_inputs(s, game, played_action(game, env_.episode.held), NO_SWITCH, env_.play.difficulty);
        if (!continues) begin_clocks(s, bus_.last_line);
        slot_ = frame & 1;
        shot_.tia = s.tia;
        bus_.log.writes = a_.envs.logs + (u64(i_) * 2 + slot_) * MOST_LOGGED;
        bus_.begin_frame();
        bus_.tia.begin_frame();
        cpu_.begin_frame(s);
        if (!continues) return;
        cpu_.end = OVER;
        bus_.tia.skip_frame();
    }

    HD bool run_line(const Program& program) { return cpu_.run_line(env_.play.state, bus_, program); }
    HD bool has_looked() const { return plays_ && bus_.log.looked; }
    HD void settle_writes() {
        if (plays_) bus_.log.settle_writes(bus_.tia);
    }

    HD void end_frame(u32 frame) {
        if (!plays_) return;
        if (cpu_.end != OVER) return give_up();
        State& s = env_.play.state;
        cpu_.store(s);
        const i32 until = 3 * s.cycle;
        bus_.settle_log(until);
        bus_.tia.end_frame();
        reward_ += accel::end_frame(env_.play, *a_.tables.game);
        const bool over = ends_step(env_.episode, a_.rules, env_.play.progress), draws = over || frame + 2 >= a_.rules.frame_skip;
        if (!draws) return;
        if (until < bus_.tia.stop) return give_up();  // The last lines of an older picture remain visible.
        shot_.writes = bus_.log.count;
        store_words(shot_, a_.envs.shots + u64(slot_) * SHOT_WORDS * a_.envs.n, a_.envs.n, i_);
        const bool is_last = frame + 1 == a_.rules.frame_skip;
        shown_ = is_last ? u8(shown_ | 1 << slot_) : u8(1 << slot_);
        if (over) plays_ = false;
    }

    HD void store() {
        if (i_ >= a_.envs.n) return;
        a_.envs.code[i_] = damaged_ ? DAMAGED : gives_up_ ? PLAIN : ALL_FAST;
        a_.envs.shown[i_] = gives_up_ ? SHOWS_FINISHED : shown_;
        if (gives_up_) return;
        if (skipped_) write_skipped(a_, env_, i_);
        else write_outcome(a_, env_, i_, reward_);
        store_words(env_, a_.envs.envs, a_.envs.n, i_);
    }

    HD const LaneCounts& counts() const { return cpu_.counts; }

  protected:
    HD double draw(u32 frame) const {
        if (a_.rules.repeat_probability <= 0) return 1;
        return sticky_draw(env_.seed, env_.number, env_.episode.steps, frame, a_.rules.frame_skip);
    }
    // Replaces a start state in the middle of a frame by the state at the end of the frame. Returns false if the table
    // lacks the state at the end, or if the frame must be drawn.
    HD bool continue_start(u32 frame) {
        State& s = env_.play.state;
        if (!a_.starts.continued || env_.episode.steps || frame || a_.rules.frame_skip < 3) return false;
        const u64 start = start_of(a_.starts, env_.seed, env_.number);
        const u32* const from = a_.starts.envs + start * ENV_WORDS;
        for (u32 w = 0; w < STATE_WORDS; w++)
            if (from[w] != reinterpret_cast<const u32*>(&s)[w]) return false;  // A loaded state may be of another table.
        load_words(s, a_.starts.continued + start * STATE_WORDS, 1, 0);
        return !s.partial;
    }
    HD void give_up() {
        gives_up_ = true;
        plays_ = false;
    }

    const StepArguments& a_;
    const u32 i_;
    Env env_;
    FastBus bus_;
    Cpu cpu_;
    Shot shot_;
    u32 action_, slot_;
    double reward_;
    u8 shown_;
    // Whether the lane plays the step, skips the step, leaves the step to the plain core, or has an invalid state.
    bool plays_, skipped_, gives_up_, damaged_;
};

using Lane = LaneOf<LaneCpu>;

// Plays an agent step on all lanes of a warp. `warp.each` calls a function on each lane, and `warp.run_frame` runs the
// console until the frame has ended on all lanes.
template <class AnyLane, class Warp>
HD void step_warp(Warp& warp, u32 frame_skip) {
    warp.each([](AnyLane& lane) { lane.load(); });
    for (u32 frame = 0; frame < frame_skip; frame++) {
        warp.each([frame](AnyLane& lane) { lane.begin_frame(frame); });
        warp.run_frame();
        warp.each([frame](AnyLane& lane) { lane.end_frame(frame); });
    }
    warp.each([](AnyLane& lane) { lane.store(); });
}

// Decides when all lanes apply their logged TIA writes together: every 16 scan lines, because the lengths of longer
// logs differ more. A lane that reads collisions applies its own writes immediately, while other lanes wait. To keep
// logs short, all lanes also apply their writes at the end of a scan line in which a lane read collisions. If lanes
// read collisions in more than 16 lines of this or the last frame, all lanes instead apply their writes every second
// line.
struct SettlingPace {
    static constexpr u32 LINES = 16, MANY = 16;
    u32 line = 0, looked = 0, looked_before = 0;

    HD void begin_frame() {
        looked_before = looked;
        line = looked = 0;
    }
    // Returns whether all lanes apply their writes at the end of this scan line. `has_looked` is true if a lane has
    // read collisions in this line.
    HD bool is_due(bool has_looked) {
        line++;
        looked += has_looked;
        return looked > MANY || looked_before > MANY ? line % 2 == 0 : has_looked || line % LINES == 0;
    }
};

// Runs a frame on all lanes of a warp, one scan line after another. `warp.any` returns whether a function returns true
// on any lane. `warp.pace` (SettlingPace) decides after which scan lines the lanes apply their logged TIA writes.
template <class Warp>
HD void run_lines(Warp& warp, const Program& program) {
    warp.pace.begin_frame();
    while (warp.any([&program](Lane& lane) { return lane.run_line(program); }))
        if (warp.pace.is_due(warp.any([](Lane& lane) { return lane.has_looked(); })))
            warp.each([](Lane& lane) { lane.settle_writes(); });
}

}  // namespace accel
