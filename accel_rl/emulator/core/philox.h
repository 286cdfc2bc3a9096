// Philox4x32-10 computes random numbers by counter (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
// | key       the environment's seed
// | counter   index, episode, purpose         ->   four words
//
// | START     index 0: the row and the column of a start state in the table of all of them
// | STICKY    index: the agent step, in blocks of four frames; a word a frame
//
// A number depends only on its counter, not on earlier draws, so that GPUs and CPUs draw the same numbers.
#pragma once
#include "types.h"

namespace accel {

enum Purpose : u32 { START, STICKY };

struct Words {
    u32 word[4];
};

HD u32 high_product(u32 a, u32 b) { return u32(u64(a) * b >> 32); }

HD Words philox(u32 key0, u32 key1, Words counter) {
    u32* const c = counter.word;
    for (u32 round = 0; round < 10; round++) {
        const u32 first = high_product(0xD2511F53u, c[0]), second = high_product(0xCD9E8D57u, c[2]);
        const u32 low_first = 0xD2511F53u * c[0], low_second = 0xCD9E8D57u * c[2];
        c[0] = second ^ c[1] ^ key0;
        c[1] = low_second;
        c[2] = first ^ c[3] ^ key1;
        c[3] = low_first;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

constexpr u32 FIRST_TIMER = 25, TIMERS = 75;  // After a power cycle, the RIOT's timer has one of 75 values from 25 on.

struct StartDraws {
    u32 row, column;
};

// Selects a row and a column of a table of start states. Probabilities of rows differ by at most 1 / 2^32, and so do
// those of columns.
HD StartDraws start_draws(u32 seed, u32 episode, u32 rows, u32 columns) {
    const Words drawn = philox(seed, 0, Words{{0, episode, START, 0}});
    return StartDraws{high_product(drawn.word[0], rows), high_product(drawn.word[1], columns)};
}

// Returns a number in [0, 1) for a frame (0 to frame_skip - 1) of an agent step of the episode.
HD double sticky_draw(u32 seed, u32 episode, u32 step, u32 frame, u32 frame_skip) {
    const u32 index = step * ((frame_skip + 3) / 4) + frame / 4;
    return philox(seed, 0, Words{{index, episode, STICKY, 0}}).word[frame % 4] / 4294967296.0;
}

}  // namespace accel
