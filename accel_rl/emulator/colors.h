// Maps the colour bytes of a picture to gray or RGB by a table.
#pragma once
#include <cstring>

#include "core/tia.h"

namespace accel {

// Maps one row. `table` has `channels` bytes for each of 256 colours, and `wide` has four bytes for each colour.
inline void map_row(u8* out, const u8* from, const u8* table, const u8 (*wide)[4], size_t channels) {
    if (channels == 1) {
        for (i32 x = 0; x < WIDTH; x++) out[x] = table[from[x]];
        return;
    }
    // Each pixel is stored as four bytes, the last of which the next pixel overwrites. Copying `channels` bytes takes 4
    // times as long: the compiler does not know `channels`, and calls a function for each pixel.
    for (i32 x = 0; x + 1 < WIDTH; x++) std::memcpy(out + 3 * x, wide[from[x]], 4);
    std::memcpy(out + 3 * (WIDTH - 1), wide[from[WIDTH - 1]], 3);
}

// `out` has `channels` (1 or 3) bytes for each pixel of the `rows` rows. Rows that equal the row above, as most do, are
// copied.
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
