// A game's rules read score, lives and end from its RAM, and have the presses that start it.
//
//     score   = a sum of tables, each indexed by one RAM byte (digits are BCD in most games)
//     reward  = change of the score over a frame; wrapped if the display rolls over, clipped if the game requires it
//     lives   = one more table
//     over    = a clause holds, that is, all of its conditions; a condition is a set of values of one byte
//
// The tables are filled from games.json; the code contains no rules for single games.
#pragma once
#include "environment.h"

namespace accel {

struct ScoreByte {
    u8 address;
    i32 points[256];
};

struct Condition {
    u8 address;
    u8 values[32];  // a set of the 256 values of a byte

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

// One step of a reset: hold an action and switches for some frames, once or until a condition of the RAM holds. RESET
// releases an action that would stick.
struct Step {
    u8 action, switches, frames, gap;  // number of frames without a press after each press
    u8 sticks;                         // sticky like an agent's action, and draws random numbers
    Clause until;                      // checked before each press; empty means one press ...
    u8 moves;                          // ... or, if not 0, until the byte at this address has changed
};
static_assert(alignof(Step) == 1, "no gaps");
constexpr u32 MOST_STEPS = 24;
constexpr u32 MOST_PRESSES = 1000;  // with a damaged RAM the condition may never hold

struct Game {
    u8 score_bytes;
    ScoreByte score[6];
    u8 first_bytes;   // number of leading score bytes: if they change, only they give reward (games before points in tennis)
    i32 per_change;   // if not 0: reward of any change of the leading bytes, in addition to the change of the others
    Clause unscored;  // while this holds (a title picture in place of the digits), the score counts as 0
    Clause scored;    // if not empty, the score counts only while this holds (a bonus for a win)
    Clause restarts;  // while this holds, rewards count from `restart_score`, not from the previous score
    i32 restart_score;
    i32 rolls_over;   // subtracted from a score of at least this value; 0 means never
    i32 wrap;         // added to a negative reward; 0 means no addition
    i32 unpaid;       // a reward of exactly this value counts as 0; 0 means no such value
    i32 least, most;  // limits of a reward
    u8 lives_address;
    i16 lives[256];
    u8 more_lives_address;  // address of a second byte of the lives, if any
    i16 more_lives[256];
    i16 lives_at_reset;  // lives reported after a reset, before the first frame; -1: from the RAM
    Clause lives_when;   // while this does not hold, lives are `lives_else`, or unchanged if that is -1 ...
    i16 lives_else;
    u8 lives_latch;    // ... and once it has held since the reset, it counts as holding
    Clause loss_when;  // if not empty: the loss of a life counts only while this holds
    u8 lives_fall;     // lives are counted down: one less whenever the byte decreases by one
    u8 last_life[2];   // the game is over when the lives byte changes from the first to the second of these ...
    u8 has_last_life;  // ... in games in which the second also has another meaning
    u8 no_lives_when_over;
    u8 no_reward_when_over;
    Clause over_after;  // the clauses below count only once this has held since the reset
    u8 clauses;
    Clause over[4];
    u8 over_when_scored;       // ... or whenever the score is not 0 (a game is one round)
    u8 full_from, full_bytes;  // ... or, if full_bytes is not 0, once none of these bytes is 0 (a full board)
    u8 steps;
    Step step[MOST_STEPS];  // steps of a reset, after 60 frames: RESET, the mode's SELECTs, the game's start actions
    u8 fire_is_noop;        // actions with the fire button have no effect
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
