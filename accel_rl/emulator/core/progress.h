// The progress of a game: score, lives, whether the game is over, and data from earlier frames that some rules need.
// | reset -> start_progress        each frame -> advance_progress, which returns the reward
#pragma once
#include "game.h"

namespace accel {

struct Progress {
    i32 score, first_score;  // `first_score` is the score of the leading score bytes, if the game has leading bytes.
    i32 lives;
    u8 over;
    u8 lives_byte;             // The game's RAM byte of the lives had the value lives_byte one frame ago.
    u8 lives_held, over_held;  // If 1, the condition for lives, or for an end, has held since the reset.
};

HD bool ends(const Game& g, const Progress& p, const u8* ram) {
    const u8 lives_byte = ram[g.lives_address & 0x7F];
    if (g.has_last_life && p.lives_byte == g.last_life[0] && lives_byte == g.last_life[1]) return true;
    return (!g.over_after.count || p.over_held) && game_over(g, ram);
}

HD i32 lives_of(const Game& g, const Progress& p, const u8* ram) {
    const bool counts = !g.lives_when.count || g.lives_when.holds(ram) || (g.lives_latch && p.lives_held);
    if (!counts && !(p.over && g.no_lives_when_over)) return g.lives_else < 0 ? p.lives : g.lives_else;
    if (g.lives_fall) {
        if (p.over) return 0;
        return p.lives - (ram[g.lives_address & 0x7F] == u8(p.lives_byte - 1) ? 1 : 0);
    }
    const i32 lives = game_lives(g, ram, p.over);
    const bool lost = !g.loss_when.count || g.loss_when.holds(ram);
    return lives == p.lives - 1 && !lost && !p.over ? p.lives : lives;
}

HD void start_progress(const Game& g, Progress& p, const u8* ram) {
    p.score = game_score(g, ram, g.first_bytes, g.score_bytes);
    p.first_score = game_score(g, ram, 0, g.first_bytes);
    p.lives_byte = ram[g.lives_address & 0x7F];
    p.lives_held = p.over_held = 0;
    p.over = !g.over_after.count && game_over(g, ram);
    p.lives = g.lives_at_reset >= 0 ? g.lives_at_reset : game_lives(g, ram, p.over);
}

HD i32 advance_progress(const Game& g, Progress& p, const u8* ram) {
    const i32 score = game_score(g, ram, g.first_bytes, g.score_bytes), first = game_score(g, ram, 0, g.first_bytes);
    i32 reward = game_reward(g, g.restarts.holds(ram) ? g.restart_score : p.score, score);
    if (first != p.first_score) reward = g.per_change ? reward + g.per_change : first - p.first_score;
    p.score = score;
    p.first_score = first;
    p.lives_held |= g.lives_when.holds(ram);
    p.over_held |= g.over_after.holds(ram);
    p.over = ends(g, p, ram);
    p.lives = lives_of(g, p, ram);
    p.lives_byte = ram[g.lives_address & 0x7F];
    return p.over && g.no_reward_when_over ? 0 : reward;
}

}  // namespace accel
