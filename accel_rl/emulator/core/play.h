// An environment as plain data, and the rules of its agent steps; on CPUs and GPUs alike.
//
//     agent step     frame  frame  frame  frame        frame_skip of them, or fewer at an end of the game
//                      -      -    drawn  drawn   ->   maximum, observation
//
// The rules are those of envs/ale.py. An end within a step shows the last screen alone. A lost life may end the return. A time
// limit adds nothing to another end at the same step.
#pragma once
#include "observation.h"
#include "progress.h"

namespace accel {

struct Rules {
    u32 frame_skip, max_steps;
    bool life_loss;
    double repeat_probability;
    ObservationKind observation;
};

struct Outcome {
    float reward;
    bool terminated, truncated, ended;
};

// A console and its game, without pictures and random numbers.
struct Play {
    State state;
    Progress progress;
    u32 frame, episode_frame;  // emulated frames since the console was loaded, and since the last reset
    u8 last_action, difficulty;
};

// Of one episode.
struct EpisodeSteps {
    u32 steps, held;  // agent steps; the action of the last frame
    i32 lives_before;
};

HD void set_inputs(State& s, const Game& game, u32 action, u8 switches, u8 difficulty) {
    set_controllers(s, action, game.controllers);
    set_switches(s, switches, difficulty);
}

// The action of an agent step; FIRE does nothing in some games, except in the presses of a reset.
HD u32 played_action(const Game& game, u32 action) { return game.fire_is_noop && action_directions(action) & FIRE ? 0 : action; }

// Counts a frame of an agent step; returns its reward.
HD i32 end_frame(Play& play, const Game& game) {
    play.frame++;
    play.episode_frame++;
    return advance_progress(game, play.progress, play.state.ram);
}

// The outcome of an agent step, after its frames. reward: their sum.
HD Outcome end_step(EpisodeSteps& episode, const Rules& rules, const Progress& progress, double reward) {
    const bool over = progress.over, lost = rules.life_loss && progress.lives < episode.lives_before;
    Outcome outcome{float(reward), over || lost, false, over};
    episode.lives_before = progress.lives;
    episode.steps++;
    if (episode.steps >= rules.max_steps) {
        outcome.truncated = !outcome.terminated;
        outcome.ended = true;
    }
    return outcome;
}

}  // namespace accel
