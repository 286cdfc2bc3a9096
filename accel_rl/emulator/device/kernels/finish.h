// The finish kernel repeats agent steps that the step kernel gave up, with the plain core.
// The step kernel does not run frames that are partial, too long, too short, or have too many TIA writes.
// In the 57 games, the step kernel runs every frame of an episode.
#pragma once
#include "../../core/philox.h"
#include "draw.h"

namespace accel {

struct FinishScratch {
    u8 pictures[2 * MOST_ROWS * WIDTH];
    u8 gray[2][MOST_ROWS * WIDTH];
    TiaLog log;
};

class FinishedStep {
  public:
    HD FinishedStep(const StepArguments& a, FinishScratch& scratch, u32 i)
        : a_(a), game_(*a.tables.game), scratch_(scratch), i_(i),
          console_{env_.play.state,
                   rom_of(a.tables.rom, a.tables.kind),
                   Picture{nullptr, game_.first_line, game_.height, game_.hmove_blanks != 0},
                   last_line_of(game_),
                   scratch.log,
                   false} {}

    HD void run() {
        load_words(env_, a_.envs.envs, a_.envs.n, i_);
        scratch_.log.count = 0;
        for (i32 at = 0; at < 2 * MOST_ROWS * WIDTH; at++) scratch_.pictures[at] = 0;
        const u32 skip = a_.rules.frame_skip, action = u32(a_.codes[a_.action[i_]]);
        double reward = 0;
        u32 frames = 0;
        while (frames < skip && !ends_step(env_.episode, a_.rules, env_.play.progress)) {
            reward += run_frame(action, frames++);
            if (frames + 1 == skip) copy_gray(0);
        }
        copy_gray(1);
        const bool both = frames == skip && skip > 1;
        write_outcome(a_, env_, i_, reward);
        store_words(env_, a_.envs.envs, a_.envs.n, i_);
        a_.envs.code[i_] = unknown_ ? UNKNOWN_PICTURE : PLAIN;
        u8* const out =
            (a_.out.ended[i_] ? a_.out.final_frame : a_.out.frame) + u64(i_) * observation_bytes(a_.rules.observation);
        const GrayRows pictures[2] = {{scratch_.gray[0], 0, WIDTH}, {scratch_.gray[1], 0, WIDTH}};
        observe(a_, pictures[both ? 0 : 1], pictures[1], out, 0, observation_height(a_.rules.observation), 0, 1);
    }

  private:
    HD i32 run_frame(u32 action, u32 frame) {
        State& s = env_.play.state;
        const double drawn = a_.rules.repeat_probability > 0
                                 ? sticky_draw(env_.seed, env_.number, env_.episode.steps, frame, a_.rules.frame_skip)
                                 : 1;
        if (drawn >= a_.rules.repeat_probability) env_.episode.held = action;
        env_.play.last_action = u8(env_.episode.held);
        set_inputs(s, game_, played_action(game_, env_.episode.held), NO_SWITCH, env_.play.difficulty);
        const bool goes_on = s.partial && s.cycle <= MOST_CYCLES;
        console_.run_frame(scratch_.pictures, true);
        const i32 stop = s.tia.frame_clock + (game_.first_line + game_.height) * LINE_CLOCKS;
        const bool whole = !goes_on && !s.partial && 3 * s.cycle >= stop;
        known_[s.odd_frame] = known_[s.odd_frame] || whole;
        return accel::end_frame(env_.play, game_);
    }

    // Copies the current picture to `gray`, converted to gray levels.
    HD void copy_gray(u32 which) {
        const u32 shown = env_.play.state.odd_frame;
        unknown_ |= !known_[shown];
        const u8* const from = scratch_.pictures + shown * u32(game_.height * WIDTH);
        for (i32 at = 0; at < game_.height * WIDTH; at++) scratch_.gray[which][at] = a_.tables.luminance[from[at]];
    }

    const StepArguments& a_;
    const Game& game_;
    FinishScratch& scratch_;
    const u32 i_;
    Env env_;
    Console console_;
    bool known_[2] = {false, false};  // known_[k] is true if picture k was drawn as a whole in the current step.
    bool unknown_ = false;
};

// Repeats the steps that were given up in every `threads`-th environment from environment `thread` on. `scratch` has
// one entry per thread.
HD void finish_steps(const StepArguments& a, FinishScratch* scratch, u32 thread, u32 threads) {
    for (u32 i = thread; i < a.envs.n; i += threads) {
        if (a.envs.shown[i] != SHOWS_FINISHED) continue;
        FinishedStep step(a, scratch[thread], i);
        step.run();
    }
}

}  // namespace accel
