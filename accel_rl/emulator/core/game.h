// The rules of a game: how score, lives and the game's end are read from the console's RAM, and which inputs start the
// game.
// | score   = a sum of tables, each indexed by one RAM byte (digits are BCD in most games)
// | reward  = change of the score over a frame; wrapped if the display rolls over, clipped if the game requires it
// | lives   = one more table
// | over    = a clause holds, that is, all of its conditions; a condition is a set of values of one byte
//
// All rules come from games.json. No code is specific to one game.
#pragma once
#include "environment.h"

namespace accel {

struct ScoreByte {
    u8 address;
    i32 points[256];
};

struct Condition {
    u8 address;
    u8 values[32];  // A set of RAM values has one bit for each of the 256 values of a byte.

    HD bool holds(const u8* ram) const {
        const u8 v = ram[address & 0x7F];
        return values[v >> 3] >> (v & 7) & 1;
    }
};

struct Clause {
    u8 count;
    Condition all[4];

    HD bool holds(const u8* ram) const {
        for (u32 i = 0; i < count; i++)
            if (!all[i].holds(ram)) return false;
        return count > 0;
    }
};

// One input of a reset: an action and console switches, which are held for some frames, once or repeatedly until a
// condition on the RAM holds. A press of RESET makes NOOP the last action that sticky actions may repeat.
struct Step {
    u8 action, switches, frames, gap;  // Each press of a reset's step is followed by `gap` frames without a press.
    u8 sticks;                         // If 1, the action is sticky like an agent's action, and draws random numbers.
    Clause until;                      // `until` is checked before each press; if empty, there is one press.
    u8 moves;  // If `moves` is not 0, the presses of a step repeat until the RAM byte at address `moves` has changed.
};
static_assert(alignof(Step) == 1, "no gaps");
constexpr u32 MOST_STEPS = 24;
constexpr u32 MOST_PRESSES = 1000;  // If the RAM is damaged, the condition of a step may never hold.

struct Game {
    u8 score_bytes;
    ScoreByte score[6];
    u8 first_bytes;  // Only changes of the first_bytes leading score bytes give reward (games before points in tennis).
    // If per_change is not 0, any change of the leading score bytes adds per_change points to the reward.
    i32 per_change;
    Clause unscored;  // While `unscored` holds (a title picture replaces the digits), the score counts as 0.
    Clause scored;    // If `scored` is not empty, the score counts only while `scored` holds (a bonus for a win).
    Clause restarts;  // While `restarts` is true, a reward is the score minus restart_score.
    i32 restart_score;
    i32 rolls_over;   // A score that reaches `rolls_over` is reduced by `rolls_over`, unless `rolls_over` is 0.
    i32 wrap;         // A negative reward is increased by `wrap`.
    i32 unpaid;       // A reward of exactly `unpaid` counts as 0.
    i32 least, most;  // Rewards are clipped to the range from `least` to `most`.
    u8 lives_address;
    i16 lives[256];
    u8 more_lives_address;  // The number of lives may have a second RAM byte, with this address.
    i16 more_lives[256];
    // The number of lives between a reset and the first frame, or -1 for the number in the RAM.
    i16 lives_at_reset;
    Clause lives_when;  // While lives_when does not hold, lives are lives_else, or unchanged if lives_else is -1.
    i16 lives_else;
    u8 lives_latch;    // If 1, the condition lives_when stays true after it has been true once since the reset.
    Clause loss_when;  // If loss_when is not empty, the loss of a life counts only while loss_when holds.
    u8 lives_fall;     // If 1, lives decrease by one whenever the lives byte decreases by one.
    u8 last_life[2];   // The game is over when the lives byte changes from last_life[0] to last_life[1].
    u8 has_last_life;  // If 1, the game also uses the value last_life[1] of the lives byte with another meaning.
    u8 no_lives_when_over;
    u8 no_reward_when_over;
    Clause over_after;  // The clauses for the game's end count only after over_after has held once since the reset.
    u8 clauses;
    Clause over[4];
    u8 over_when_scored;  // If 1, the game is over whenever the score is not 0 (a game is one round).
    // If full_bytes is not 0, the game is over when this number of RAM bytes, from address full_from on, are all not 0.
    u8 full_from, full_bytes;
    u8 steps;
    // The inputs of a reset, after 60 frames: RESET, SELECT until the mode is chosen, and then the game's start
    // actions.
    Step step[MOST_STEPS];
    u8 fire_is_noop;  // If 1, actions with the fire button have no effect.
    Controllers controllers;
    u8 pal;
    i32 first_line, height;
    u8 hmove_blanks;
};

HD i32 game_score(const Game& g, const u8* ram, u32 from, u32 to) {
    if (g.unscored.holds(ram) || (g.scored.count && !g.scored.holds(ram))) return 0;
    i32 score = 0;
    for (u32 i = from; i < to; i++) score += g.score[i].points[ram[g.score[i].address & 0x7F]];
    return g.rolls_over && score >= g.rolls_over ? score - g.rolls_over : score;
}

HD i32 game_reward(const Game& g, i32 before, i32 now) {
    i32 reward = now - before;
    if (reward < 0) reward += g.wrap;
    if (g.unpaid && reward == g.unpaid) return 0;
    return reward < g.least ? g.least : reward > g.most ? g.most : reward;
}

HD bool game_over(const Game& g, const u8* ram) {
    for (u32 i = 0; i < g.clauses; i++)
        if (g.over[i].holds(ram)) return true;
    if (g.over_when_scored && game_score(g, ram, 0, g.score_bytes)) return true;
    for (u32 i = 0; i < g.full_bytes; i++)
        if (!ram[(g.full_from + i) & 0x7F]) return false;
    return g.full_bytes > 0;
}

HD i32 game_lives(const Game& g, const u8* ram, bool over) {
    return over && g.no_lives_when_over ? 0
                                        : g.lives[ram[g.lives_address & 0x7F]] + g.more_lives[ram[g.more_lives_address & 0x7F]];
}

}  // namespace accel
