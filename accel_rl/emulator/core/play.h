// The state of an environment, which is plain data, and the rules of its agent steps, for CPUs and GPUs.
// | agent step     frame  frame  frame  frame        frame_skip of them, or fewer at an end of the game
// |                  -      -    drawn  drawn   ->   maximum, observation
//
// The rules of an agent step are those of envs/ale.py. If the game ends within an agent step, the observation shows
// only the last screen. If `life_loss` is set, a lost life sets `terminated`. A step that reaches the time limit is not
// `truncated` if it ends the game or loses a life.
#pragma once
#include "observation.h"
#include "progress.h"

namespace accel {

struct Rules {
    u32 frame_skip, max_steps;
    bool life_loss;
    double repeat_probability;
    ObservationKind observation;
    bool one_life = false;  // A lost life ends the step and the episode.
};

struct Outcome {
    float reward;
    bool terminated, truncated, ended;
};

// The state of a console and its game, without pictures and random number generators.
struct Play {
    State state;
    Progress progress;
    u32 frame, episode_frame;  // Counts emulated frames since the console was loaded, and since the last reset.
    u8 last_action, difficulty;
};

// EpisodeSteps counts the steps of one episode.
struct EpisodeSteps {
    u32 steps, held;  // `held` is the joystick action of the last emulated frame.
    i32 lives_before;
};

HD void set_inputs(State& s, const Game& game, u32 action, u8 switches, u8 difficulty, i32 turn = PADDLE_TURN) {
    set_controllers(s, action, game.controllers, turn);
    set_switches(s, switches, difficulty);
}

// Returns the action that is played for an agent's action. In some games, an agent's actions with FIRE do nothing.
HD u32 played_action(const Game& game, u32 action) { return game.fire_is_noop && action_directions(action) & FIRE ? 0 : action; }

// Returns what is wrong with a loaded state, or null if the state is valid. From an invalid state, the emulator could
// access memory outside an array, overflow in a division, or loop forever.
HD const char* damage_of(const Play& p, const Rom& rom) {
    const State& c = p.state;
    const Tia& t = c.tia;
    const i32 most = -LONG_AGO;
    const u32 bank = rom.kind == CART_FE ? 0x1000 : 0;
    for (u16 slice : c.cartridge.slice)
        if (slice + bank + 1024u > rom.size) return "a cartridge slice lies outside the ROM";
    for (u8 pos : t.pos)
        if (pos >= WIDTH) return "an object lies outside the line";
    if (c.riot.shift > 10) return "the timer's divider";
    if (!(c.cartridge.dpc.part >= 0 && c.cartridge.dpc.part < 1)) return "the voices' clock";
    for (u16 counter : c.cartridge.dpc.counter)
        if (counter >= 2048) return "a data fetcher's counter";
    if (c.cycle < 0 || c.cycle > MOST_CYCLES + MOST_CYCLES / 2) return "the cycle count";
    if (t.frame_clock > 0 || t.frame_clock <= -LINE_CLOCKS) return "the frame's first clock";
    if (t.settled < -LINE_CLOCKS || t.settled > 3 * c.cycle + LINE_CLOCKS) return "the settled clock";
    if (t.dump_cycle < LONG_AGO || t.dump_cycle > c.cycle) return "the paddles' cycle";
    if (t.hmove_clock < LONG_AGO || t.hmove_clock > 3 * c.cycle) return "the clock of HMOVE";
    if (t.vsync_clock != NEVER && (t.vsync_clock < LONG_AGO || t.vsync_clock >= most)) return "the clock of VSYNC";
    if (t.stars > 4 || t.star_form > 2) return "the stars";
    for (u8 hm : t.hm)
        if (hm >= 16) return "a motion";
    if (t.enam[0] > 1 || t.enam[1] > 1 || c.odd_frame > 1) return "a flag";
    if (c.cpu.c > 1 || c.cpu.v > 1 || c.cpu.d > 1 || c.cpu.i > 1) return "a processor flag";
    for (i32 r : c.paddle)
        if (r < -1 || r > PADDLE_MOST) return "a paddle";
    if (p.progress.over > 1 || p.progress.lives <= -most || p.progress.lives >= most) return "the lives";
    const i32 scores[2] = {p.progress.score, p.progress.first_score};
    for (i32 score : scores)
        if (score <= 4 * LONG_AGO || score >= 4 * most) return "the score";
    return p.last_action < ACTIONS ? nullptr : "the last action";
}

// Updates counters, score and lives after an emulated frame. Returns the frame's reward.
HD i32 end_frame(Play& play, const Game& game) {
    play.frame++;
    play.episode_frame++;
    return advance_progress(game, play.progress, play.state.ram);
}

// Returns whether the agent step ends now, although fewer than frame_skip frames were played.
HD bool ends_step(const EpisodeSteps& episode, const Rules& rules, const Progress& progress) {
    return progress.over || (rules.one_life && progress.lives < episode.lives_before);
}

// Returns the outcome of an agent step after its last frame. `reward` is the sum of the frames' rewards.
HD Outcome end_step(EpisodeSteps& episode, const Rules& rules, const Progress& progress, double reward) {
    const bool over = progress.over, lost = progress.lives < episode.lives_before;
    Outcome outcome{float(reward), over || (lost && (rules.life_loss || rules.one_life)), false,
                    over || (lost && rules.one_life)};
    episode.lives_before = progress.lives;
    episode.steps++;
    if (episode.steps >= rules.max_steps) {
        outcome.truncated = !outcome.terminated;
        outcome.ended = true;
    }
    return outcome;
}

}  // namespace accel
