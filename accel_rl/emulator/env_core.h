// An Atari environment: an emulator with agent steps of several frames.
// | action -> frame  frame  frame  frame          frame_skip of them, or fewer at an end of the game
// |           -      -      gray   gray   ->  maximum, observation, in the caller's array
//
// The rules of an agent step are those of envs/ale.py. The caller draws the random numbers for sticky actions. If the
// game ends within an agent step, the observation shows only the last screen. If `life_loss` is set, a lost life sets
// `terminated`. A step that reaches the time limit is not `truncated` if it ends the game or loses a life.
#pragma once
#include "area_x86.h"
#include "colors.h"
#include "emulator.h"

namespace accel {

// Kinds of raw observations, in place of gray pictures: the screen mapped by a palette, or the console's RAM.
enum class RawObservation : u8 { NONE, PICTURE, RAM };

class AtariEnvCore : public Emulator {
  public:
    AtariEnvCore(const std::string& rom, CartridgeKind kind, const Game& game, const Rules& rules, const u8* luminance)
        : Emulator(rom, kind, game, 0, 0.0f), rules_(rules) {
        keeps_ = false;  // The pictures of a reset's frames are rarely needed, so they are drawn on demand.
        std::memcpy(luminance_, luminance, sizeof luminance_);
        for (i32 y = 0; y < game.height; y++) wanted_[y] = row_counts(rules.observation, y, game.height);
    }

    // Selects raw observations. `palette` [256, channels] maps colour bytes to gray or RGB.
    void set_raw(RawObservation raw, const std::vector<u8>& palette) {
        raw_ = raw;
        palette_ = palette;
    }

    // Writes the current screen as an observation.
    void observe(u8* out) {
        if (raw_ != RawObservation::NONE) return write_raw(out);
        Scratch& work = scratch();
        copy_gray(work.last, luminance_);
        observer(work).observe(work.last, nullptr, out);
    }

    // Begins an episode at the emulator's current state.
    void begin(u8* out) {
        episode = EpisodeSteps{0, 0, lives()};
        observe(out);
    }

    // Runs the frames of an agent step and writes the step's observation: the last frame, or if `pooled` is true, the
    // pixelwise maximum of the last two frames. `draws` are frame_skip random numbers in [0, 1) for sticky actions, or
    // null without sticky actions. The step ends early after `most` frames, or after a lost life if `one_life` is true.
    struct Frames {
        double reward;
        bool ended;
    };
    Frames play_frames(u32 action, const double* draws, bool pooled, bool one_life, u32 most, u8* out) {
        Scratch& work = scratch();
        const i32 lives_first = lives();
        const u32 skip = rules_.frame_skip;
        const bool both = pooled && skip > 1;
        double reward = 0;
        bool ended = over();
        u32 frames = 0;
        while (frames < skip && frames < most && !ended && !(one_life && lives() < lives_first)) {
            if (!draws || draws[frames] >= rules_.repeat_probability) episode.held = action;
            frames++;
            GrayFrame* const gray = raw_ != RawObservation::NONE ? nullptr
                                    : frames == skip             ? &work.last
                                    : both && frames + 1 == skip ? &work.first
                                                                 : nullptr;
            const FastCanvas canvas = gray ? FastCanvas{gray->pixels, luminance_, gray->source, wanted_} : FastCanvas{};
            keeps_ = raw_ == RawObservation::PICTURE && frames == skip;
            reward += fast() ? act_drawn(episode.held, gray, &canvas) : act(episode.held);
            if (gray && !fast()) copy_gray(*gray, luminance_);
            ended = over();
        }
        if (frames < skip || raw_ != RawObservation::NONE) observe(out);
        else observer(work).observe(both ? work.first : work.last, both ? &work.last : nullptr, out);
        return {reward, ended};
    }

    // `draws` as in play_frames().
    Outcome step(u32 action, const double* draws, u8* out) {
        const double reward = play_frames(action, draws, true, false, ~0u, out).reward;
        return end_step(episode, rules_, play().progress, reward);
    }

    size_t observation_bytes() const {
        if (raw_ == RawObservation::RAM) return RAM_BYTES;
        if (raw_ == RawObservation::PICTURE) return size_t(height()) * WIDTH * channels();
        return size_t(observation_height(rules_.observation)) * size_t(observation_width(rules_.observation));
    }
    u32 frame_skip() const { return rules_.frame_skip; }

    EpisodeSteps episode{};

  private:
    // Memory for the pictures of one agent step. A thread uses one Scratch for all environments that it steps.
    struct Scratch {
        GrayFrame first, last;
        Observer observer;
    };
    static Scratch& scratch() {
        static thread_local std::unique_ptr<Scratch> work = std::make_unique<Scratch>();
        return *work;
    }
    size_t channels() const { return palette_.size() / 256; }
    void write_raw(u8* out) {
        if (raw_ == RawObservation::RAM) {
            std::memcpy(out, ram(), RAM_BYTES);
            return;
        }
        map_colors(out, screen(), palette_.data(), channels(), size_t(height()));
    }
    Observer& observer(Scratch& work) const {
        work.observer.kind = rules_.observation;
        work.observer.rows = height();
        work.observer.line = best_area_line();
        return work.observer;
    }

    static constexpr size_t RAM_BYTES = 128;

    Rules rules_;
    RawObservation raw_ = RawObservation::NONE;
    std::vector<u8> palette_;
    u8 luminance_[256];
    u8 wanted_[MOST_ROWS];
};

}  // namespace accel
