// Maps the colour bytes of a picture to gray or RGB by a table.
#pragma once
#include <cstring>

#include "core/tia.h"

namespace accel {

// Maps one row of a picture. `table` has `channels` bytes per colour byte, and `wide` has four bytes per colour byte.
inline void map_row(u8* out, const u8* from, const u8* table, const u8 (*wide)[4], size_t channels) {
    if (channels == 1) {
        for (i32 x = 0; x < WIDTH; x++) out[x] = table[from[x]];
        return;
    }
    // An RGB pixel is written as four bytes, the last of which the next pixel overwrites. To copy `channels` bytes
    // would take 4 times as long, because the compiler would call a function for each pixel.
    for (i32 x = 0; x + 1 < WIDTH; x++) std::memcpy(out + 3 * x, wide[from[x]], 4);
    std::memcpy(out + 3 * (WIDTH - 1), wide[from[WIDTH - 1]], 3);
}

// Maps a picture. `out` has `channels` (1 or 3) bytes per pixel. Rows that equal the row above, as most do, are copied.
inline void map_colors(u8* out, const u8* from, const u8* table, size_t channels, size_t rows) {
    u8 wide[256][4] = {};
    for (size_t c = 0; c < 256 && channels == 3; c++) std::memcpy(wide[c], table + 3 * c, 3);
    const size_t bytes = channels * WIDTH;
    for (size_t y = 0; y < rows; y++, from += WIDTH, out += bytes) {
        if (y && !std::memcmp(from, from - WIDTH, WIDTH)) std::memcpy(out, out - bytes, bytes);
        else map_row(out, from, table, wide, channels);
    }
}

}  // namespace accel
