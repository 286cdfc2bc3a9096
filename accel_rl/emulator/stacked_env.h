// One environment of a vector environment: a game, a stack of observations, random numbers for no-ops, and the result
// of the last step.
// | reset     console, no-ops (the first of them FIRE where the game starts by it), an observation beneath zeros
// | step      frames -> observation -> stack; after an end: the reset alone (NEXT_STEP), or the reset too (SAME_STEP)
//
// The rules are those of ale-py 0.12.1's AtariVectorEnv, with one exception: the last observation of an episode shows
// the last screen, while AtariVectorEnv's shows older screens.
#pragma once
#include "env_core.h"

namespace accel {

enum class AutoReset : u8 { NEXT_STEP, SAME_STEP, DISABLED };

struct StackedEnvRules {
    u32 stack, noop_max, max_frames;
    bool maxpool, fire, episodic_life, life_loss_info, clips;
    AutoReset autoreset;
    float repeat_probability;
    bool envpool;  // The rules are those of EnvPool where they differ (envpool_env.h).
};

// The result of a step or of a reset.
struct Report {
    i32 reward, lives;
    u32 frame, episode_frame;
    bool terminated, truncated;
};

class StackedEnv {
  public:
    StackedEnv(AtariEnvCore& core, const StackedEnvRules& rules)
        : core_(core), rules_(rules), size_(core.observation_bytes()), ring_(rules.stack * size_) {}
    virtual ~StackedEnv() = default;

    // Begins an episode. If `seed` is negative, the random number generators are not seeded again.
    void reset(long long seed) {
        if (seed >= 0) {
            random_seed(noops_, u32(seed));
            core_.set_sticky(u32(seed), rules_.repeat_probability);
            core_.load();
        }
        restart();
        finished = false;
    }

    void set_turn(i32 ohms) { core_.set_turn(ohms); }
    virtual void step(u32 action) {
        finished = false;
        if (ended_ && rules_.autoreset == AutoReset::NEXT_STEP) return reset(-1);
        newest_ = (newest_ + 1) % rules_.stack;
        const auto [reward, over] = core_.play_frames(action, nullptr, rules_.maxpool, rules_.episodic_life,
                                                      rules_.max_frames - played(), ring_.data() + newest_ * size_);
        const i32 lives = core_.lives();
        const bool lost = lives < lives_;
        lives_ = lives;
        report = result(reward, over || (lost && (rules_.episodic_life || rules_.life_loss_info)), over);
        ended_ = over || (lost && rules_.episodic_life) || report.truncated;
        finished = rules_.autoreset == AutoReset::SAME_STEP && (report.terminated || report.truncated);
        if (!finished) return;
        final_.resize(ring_.size());
        write(final_.data());
        final_report = report;
        if (!ended_) return;  // After the loss of a life alone, the game continues.
        restart();
    }

    // Saves everything on which later steps depend, including the stack and the emulator.
    std::string save() {
        const Saved saved = {MAGIC, rules_.stack, u32(size_), newest_, first_, ended_, lives_, core_.last_turn(), report, noops_};
        std::string out(reinterpret_cast<const char*>(&saved), sizeof saved);
        out.append(reinterpret_cast<const char*>(ring_.data()), ring_.size());
        return out + core_.save();
    }
    // Restores a saved state. If `randoms` is false, the random number generators of sticky actions and no-ops are not
    // restored.
    void restore(const std::string& bytes, bool randoms) {
        Saved saved;
        if (bytes.size() < sizeof saved + ring_.size()) throw std::invalid_argument("the state is cut off");
        std::memcpy(static_cast<void*>(&saved), bytes.data(), sizeof saved);
        if (saved.magic != MAGIC) throw std::invalid_argument("these bytes are no state of a VectorEnv's environment");
        if (saved.stack != rules_.stack || saved.size != size_)
            throw std::invalid_argument("the state is of another stack_num or obs_type");
        require(saved.newest < rules_.stack && saved.noops.next <= 624, "its numbers");
        require(saved.last_turn >= 0 && saved.last_turn <= PADDLE_MOST, "its paddle's turn");
        const Random sticky = core_.sticky();
        core_.restore(bytes.substr(sizeof saved + ring_.size()));
        if (!randoms) core_.set_sticky(sticky);
        core_.set_last_turn(saved.last_turn);
        newest_ = saved.newest, first_ = saved.first, ended_ = saved.ended != 0, lives_ = saved.lives;
        report = saved.report, finished = false;
        if (randoms) noops_ = saved.noops;
        std::memcpy(ring_.data(), bytes.data() + sizeof saved, ring_.size());
    }

    // Writes the stack to `out` [stack, 84, 84], the oldest picture first.
    void write(u8* out) const {
        for (u32 i = 0; i < rules_.stack; i++)
            std::memcpy(out + i * size_, ring_.data() + (newest_ + 1 + i) % rules_.stack * size_, size_);
    }
    // Writes the last observation to `out` again, for a batch in which this environment has no task. The reward is 0.
    void show(u8* out) {
        report = {0, report.lives, report.frame, report.episode_frame, false, false};
        finished = false;
        write(out);
    }
    void write_final(u8* out) const { std::memcpy(out, final_.data(), final_.size()); }
    size_t bytes() const { return ring_.size(); }
    const u8* ram() const { return core_.ram(); }
    bool waits_for_reset() const { return ended_ && rules_.autoreset == AutoReset::DISABLED; }

    Report report{}, final_report{};
    bool finished = false;  // In SAME_STEP mode, `finished` is true if the step has a final observation.

  protected:
    static constexpr u32 MAGIC = 0x32565241;  // "ARV2"
    struct Saved {
        u32 magic, stack, size, newest, first, ended;
        i32 lives, last_turn;
        Report report;
        Random noops;
    };

    Report result(double reward, bool terminated, bool over) const {
        const i32 points = i32(reward);
        const bool late = played() >= rules_.max_frames;
        return {rules_.clips ? (points > 0) - (points < 0) : points,
                core_.lives(),
                core_.frames(),
                core_.episode_frames(),
                terminated,
                late && !over};
    }

    // Returns the number of frames that count towards the time limit, which excludes the frames of the reset.
    u32 played() const { return core_.episode_frames() - first_; }

    // Resets the game, plays no-ops, and computes the first observation and the Report of the reset.
    virtual void restart() {
        core_.reset();
        u32 noops = draw_noops();
        if (rules_.fire) {
            act(1);
            if (noops) noops--;
        }
        for (u32 i = 0; i < noops; i++) act(0);
        std::memset(ring_.data(), 0, ring_.size());
        newest_ = rules_.stack - 1;
        core_.observe(ring_.data() + newest_ * size_);
        lives_ = core_.lives();
        first_ = core_.episode_frames();
        ended_ = false;
        report = {0, lives_, core_.frames(), first_, false, false};
    }

    u32 draw_noops() { return rules_.noop_max ? u32(u64(random_draw(noops_)) * rules_.noop_max >> 32) : 0; }

    // Plays one frame of a reset. If the game ends, resets the game and returns true.
    bool act(u32 action) {
        core_.act(action);
        if (!core_.over()) return false;
        core_.reset();
        return true;
    }

    AtariEnvCore& core_;
    const StackedEnvRules rules_;
    const size_t size_;
    std::vector<u8> ring_, final_;
    Random noops_{};
    u32 newest_ = 0, first_ = 0;
    i32 lives_ = 0;
    bool ended_ = false;
};

}  // namespace accel
