// What a game's RAM means: score, lives, end; and how it is started.
//
//     score   = the sum of a few tables, each looked up with one RAM byte (digits are BCD in most games)
//     reward  = the score's change over a frame, wrapped where the display rolls over, clipped where the game asks for it
//     lives   = one more table
//     over    = any clause of which all conditions hold; a condition is a set of values of one byte
//
// The tables are filled from games.json; nothing here knows a game by name.
#pragma once
#include "environment.h"

namespace accel {

struct ScoreByte {
    u8 address;
    i32 points[256];
};

struct Condition {
    u8 address;
    u8 values[32];  // 256 bits

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

// One step of a reset: hold an action and switches for some frames, once or until the RAM says so. RESET lets an action go
// that would stick.
struct Step {
    u8 action, switches, frames, gap;  // gap: frames without a press after each
    u8 sticks;                         // as an agent's action: it may stick, and draws random numbers
    Clause until;                      // checked before each press; empty: press once ...
    u8 moves;                          // ... or until this byte has changed, where it is not 0
};
static_assert(alignof(Step) == 1, "no gaps");
constexpr u32 MOST_STEPS = 24;
constexpr u32 MOST_PRESSES = 1000;  // a damaged RAM may never say so

struct Game {
    u8 score_bytes;
    ScoreByte score[6];
    u8 first_bytes;   // of the score's: where they change the reward is theirs alone (games before points in tennis)
    i32 per_change;   // where not 0: a change of theirs is worth this, whatever it is, beside the rest's change
    Clause unscored;  // while it holds (a title picture in the digits' place) the score counts as 0
    Clause scored;    // where there is such: the score counts only while it holds (a bonus for a win)
    Clause restarts;  // while it holds a reward counts from `restart_score`, not from the score before
    i32 restart_score;
    i32 rolls_over;   // a score of this or more counts so much less; 0: it does not
    i32 wrap;         // a negative reward gets this much more; 0: it stays
    i32 unpaid;       // a reward of just this is none; 0: there is no such
    i32 least, most;  // a reward's limits
    u8 lives_address;
    i16 lives[256];
    u8 more_lives_address;  // a second byte that counts, if any
    i16 more_lives[256];
    i16 lives_at_reset;  // what a reset says before the first frame; -1: as the RAM has it
    Clause lives_when;   // while it does not hold the lives are `lives_else`, or stay as they were where that is -1 ...
    i16 lives_else;
    u8 lives_latch;    // ... and it counts as holding once it has held since the reset
    Clause loss_when;  // one life less counts only while this holds, where there is such a clause
    u8 lives_fall;     // lives are counted: one less whenever the byte falls by one
    u8 last_life[2];   // the game is over when the lives byte goes from the first to the second of these ...
    u8 has_last_life;  // ... in games where the second also means something else
    u8 no_lives_when_over;
    u8 no_reward_when_over;
    Clause over_after;  // the clauses below count only once this has held since the reset
    u8 clauses;
    Clause over[4];
    u8 over_when_scored;       // ... or whenever the score is not 0 (a round is a game)
    u8 full_from, full_bytes;  // ... or once none of these bytes is 0 (a board without a free place), where there are any
    u8 steps;
    Step step[MOST_STEPS];  // of a reset, after its 60 frames: RESET, the mode's SELECTs, the game's start actions
    u8 fire_is_noop;        // actions with the fire button do nothing at all
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
