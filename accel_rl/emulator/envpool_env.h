// One environment with the rules of EnvPool 1.2.5, which differ from those of ale-py's AtariVectorEnv as follows.
// | new game    console, no-ops, FIRE where the game starts by it; the first picture fills the stack
// | lost life   (episodic_life) no-ops and FIRE in the same game; one picture more in the stack
// | step        frames -> observation -> stack; the step after an end, or after a lost life, ignores its action
//
// In the Report of an EnvPoolEnv, `frame` is 1 if the game is over, and `episode_frame` counts the agent steps of the
// game.
#pragma once
#include "stacked_env.h"

namespace accel {

class EnvPoolEnv : public StackedEnv {
  public:
    EnvPoolEnv(AtariEnvCore& core, const StackedEnvRules& rules) : StackedEnv(core, rules), picture_(size_) {}

    void step(u32 action) override {
        if (ended_) return begin(core_.over() || is_late(report.episode_frame));
        const u32 before = core_.episode_frames(), steps = report.episode_frame + 1;
        const auto [reward, over] = core_.play_frames(action, nullptr, true, false, ~0u, picture_.data());
        // EnvPool reads the screen only in the last two frames of a step. If the game ends earlier, the newest picture
        // in the stack is repeated.
        const bool is_seen = core_.episode_frames() - before + 1 >= core_.frame_skip();
        push(is_seen ? picture_.data() : ring_.data() + newest_ * size_);
        const i32 lives = core_.lives();
        const bool late = is_late(steps);
        const bool lost = rules_.episodic_life && 0 < lives && lives < lives_;
        lives_ = lives;
        ended_ = over || late || lost;
        report = {i32(reward), lives, over, steps, ended_ && !late, late};
    }

  private:
    void restart() override { begin(true); }

    // Begins a game, or continues the game after a lost life. For the time limit, the beginning of a game is no agent
    // step.
    void begin(bool anew) {
        const u32 steps = anew ? 0 : report.episode_frame;
        u32 noops = draw_noops() + (rules_.fire ? 0 : 1);
        if (anew) core_.reset();
        while (noops--) anew |= act(0);
        if (rules_.fire) core_.act(1);  // If the game ends at this frame, the agent's first step reports the end.
        core_.observe(picture_.data());
        for (u32 i = 0; i < (anew ? rules_.stack : 1); i++) push(picture_.data());
        lives_ = core_.lives();
        ended_ = false;
        report = {0, lives_, core_.over(), steps, false, false};
    }

    bool is_late(u32 steps) const { return u64(steps) * core_.frame_skip() >= rules_.max_frames; }

    void push(const u8* picture) {
        newest_ = (newest_ + 1) % rules_.stack;
        std::memmove(ring_.data() + newest_ * size_, picture, size_);
    }

    std::vector<u8> picture_;
};

}  // namespace accel
