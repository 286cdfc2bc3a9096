// The Mersenne Twister mt19937 (Matsumoto and Nishimura 1998) has 624 words, and draws 32 bits at a time.
// | console randomness   one fixed seed: 128 bytes of RAM, then the timer at each reset
// | sticky actions       the user's seed: two draws an emulated frame
//
// Because the generator's state is larger than the console's, a saved console contains only the number of draws since
// the fixed seed.
#pragma once
#include "types.h"

namespace accel {

struct Random {
    u32 word[624];
    u32 next;
};

HD void random_seed(Random& r, u32 seed) {
    r.word[0] = seed;
    for (u32 i = 1; i < 624; i++) r.word[i] = 1812433253u * (r.word[i - 1] ^ r.word[i - 1] >> 30) + i;
    r.next = 624;
}

HD u32 random_draw(Random& r) {
    if (r.next >= 624) {
        for (u32 i = 0; i < 624; i++) {
            const u32 y = (r.word[i] & 0x80000000u) | (r.word[(i + 1) % 624] & 0x7FFFFFFFu);
            r.word[i] = r.word[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908B0DFu : 0);
        }
        r.next = 0;
    }
    u32 y = r.word[r.next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9D2C5680u;
    y ^= y << 15 & 0xEFC60000u;
    return y ^ y >> 18;
}

}  // namespace accel
