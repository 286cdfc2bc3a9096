// Builds an observation, in place, from the gray pictures of an agent step's last two frames.
// | row of frame 3, row of frame 4 -> maximum -> 104x80       rows 1, 3 ... and every second pixel
// |                                           -> 104x80-mean  without the first and the last row, means of 2x2
// |                                           -> 84x84        areas of 5/2 rows by 40/21 pixels, as cv2's INTER_AREA
//
// If a row of a picture equals the row above, `source` refers to the row above, whose results are reused.
//
// A pixel of the 84x84 observation is the mean of an area of the picture. The mean is computed with integers: a pixel
// of the picture has 21 x 2 parts, and an area has 200 parts. cv2's rounding errors matter only for means halfway
// between two integers, which are computed again in floats, in cv2's order.
#pragma once
#include "tia.h"

namespace accel {

enum ObservationKind : u8 { SUBSAMPLE, MEAN, AREA, OBSERVATION_KINDS };

constexpr i32 MOST_ROWS = 262;
constexpr i32 ROWS = 210;  // MEAN and AREA support pictures of 210 rows.

struct GrayFrame {
    u8 pixels[MOST_ROWS * WIDTH];
    u16 source[MOST_ROWS];  // Maps a picture's row to a row with equal pixels: the row itself or a row above.

    HD const u8* row(i32 y) const { return pixels + source[y] * WIDTH; }
};

HD i32 observation_height(ObservationKind kind) { return kind == AREA ? 84 : 104; }
HD i32 observation_width(ObservationKind kind) { return kind == AREA ? 84 : 80; }
HD i32 subsampled_row(i32 y, i32 rows) { return 1 + y * (rows - 2) / 104; }

// Returns whether an observation depends on row `row` of a picture with `rows` rows.
HD bool row_counts(ObservationKind kind, i32 row, i32 rows) {
    if (kind == MEAN) return row > 0 && row < rows - 1;
    if (kind == AREA) return true;
    for (i32 y = 0; y < 104; y++)
        if (subsampled_row(y, rows) == row) return true;
    return false;
}

// Returns how many rows of a picture are needed for the first `lines` lines of the observation.
HD i32 rows_of_lines(ObservationKind kind, i32 lines, i32 rows) {
    if (kind == AREA) return (5 * lines + 1) / 2;
    return kind == MEAN ? 2 * lines + 1 : subsampled_row(lines - 1, rows) + 1;
}

// cv2's weights along one axis. Each of 84 outputs is a weighted sum of up to four pixels from `first` on.
struct AreaAxis {
    struct Part {
        i32 first, count;
        float weight[4];
    } part[84];
};
HD constexpr AreaAxis area_axis(i32 size) {
    AreaAxis axis{};
    const double scale = double(size) / 84;
    for (i32 d = 0; d < 84; d++) {
        const double begin = d * scale, end = begin + scale;
        const double width = scale < size - begin ? scale : size - begin;
        i32 from = i32(begin), to = i32(end);
        if (from < begin) from++;
        if (to > size - 1) to = size - 1;
        if (from > to) from = to;
        AreaAxis::Part& part = axis.part[d];
        part.first = from;
        if (from - begin > 1e-3) {
            part.first--;
            part.weight[part.count++] = float((from - begin) / width);
        }
        for (i32 s = from; s < to; s++) part.weight[part.count++] = float(1.0 / width);
        if (end - to > 1e-3) {
            const double rest = end - to < 1 ? end - to : 1;
            part.weight[part.count++] = float((rest < width ? rest : width) / width);
        }
    }
    return axis;
}

// Integer weights along a row. An area has 40 parts, a pixel of the picture has 21, and an area overlaps up to three
// pixels.
struct AreaRow {
    struct Part {
        u16 first, weight[3];
    } part[84];
};
HD constexpr AreaRow area_row() {
    AreaRow row{};
    for (u32 d = 0; d < 84; d++) {
        const u32 begin = 40 * d, end = begin + 40;
        row.part[d].first = u16(begin / 21);
        for (u32 k = 0; k < 3; k++) {
            const u32 low = 21 * (begin / 21 + k), high = low + 21;
            const u32 from = low > begin ? low : begin, to = high < end ? high : end;
            row.part[d].weight[k] = u16(to > from ? to - from : 0);
        }
    }
    return row;
}

// The rows of two frames that make one line of areas: two whole rows, and half of a third row.
struct AreaRows {
    const u8 *whole[2], *other[2], *half[2];
};

// Writes a line of 84 pixels to `out`. Sets bit x of the two words `halfway` if mean x is halfway between two integers.
using AreaLine = void(const AreaRows& from, u8* out, u64* halfway);

HD void area_line(const AreaRows& from, u8* __restrict out, u64* halfway) {
    static constexpr AreaRow parts = area_row();
    u16 down[WIDTH + 8], sums[84];
    const auto brighter = [](const u8* const* row, i32 x) { return row[0][x] > row[1][x] ? row[0][x] : row[1][x]; };
    for (i32 x = 0; x < WIDTH; x++)
        down[x] = u16(2 * (brighter(from.whole, x) + brighter(from.other, x)) + brighter(from.half, x));
    for (i32 x = WIDTH; x < WIDTH + 8; x++) down[x] = 0;
    for (i32 period = 0; period < 4; period++)
#if defined(__GNUC__) && !defined(__CUDACC__)
#pragma GCC unroll 21
#endif
        for (i32 x = 0; x < 21; x++) {
            const AreaRow::Part& p = parts.part[x];
            const u16* const s = down + 40 * period + p.first;
            sums[21 * period + x] = u16(p.weight[0] * s[0] + p.weight[1] * s[1] + p.weight[2] * s[2]);
        }
    u16 any = 0;
    for (i32 x = 0; x < 84; x++) {  // Each sum of an area is divided by 200 and rounded.
        const u16 sum = u16(sums[x] + 100), value = u16((sum >> 3) * 5243u >> 17);
        any |= sum == u16(value * 200);
        out[x] = u8(value);
    }
    halfway[0] = halfway[1] = 0;
    for (i32 x = 0; any && x < 84; x++) halfway[x >> 6] |= u64(sums[x] % 200 == 100) << (x & 63);
}

// Computes pixel x, y of the 84x84 observation of two pictures in floats, in cv2's order. `Rows` returns a row by its
// number.
template <class Rows>
HD u8 area_as_floats(const Rows& first, const Rows& second, u32 x, i32 y) {
    static constexpr AreaAxis columns = area_axis(WIDTH), lines = area_axis(ROWS);
    const AreaAxis::Part &column = columns.part[x], &rows_of = lines.part[y];
    float total = 0;
    for (i32 r = 0; r < rows_of.count; r++) {
        const u8* const a = first.row(rows_of.first + r) + column.first;
        const u8* const b = second.row(rows_of.first + r) + column.first;
        float along = 0;
        for (i32 c = 0; c < column.count; c++) along += (a[c] > b[c] ? a[c] : b[c]) * column.weight[c];
        total += rows_of.weight[r] * along;
    }
    const i32 low = i32(total);
    const float rest = total - float(low);
    return u8(rest > 0.5f || (rest == 0.5f && low & 1) ? low + 1 : low);
}

template <class Rows>
HD u32 brighter_pixel(const Rows& first, const Rows& second, i32 y, i32 x) {
    const u8 a = first.row(y)[x], b = second.row(y)[x];
    return a > b ? a : b;
}

template <class Rows>
HD u8 area_pixel(const Rows& first, const Rows& second, u32 x, i32 y) {
    static constexpr AreaRow parts = area_row();
    const AreaRow::Part& part = parts.part[x];
    const i32 top = 5 * (y / 2) + 2 * (y & 1);
    u32 sum = 100;
    for (i32 r = 0; r < 3; r++) {
        const u32 weight = r == (y & 1 ? 0 : 2) ? 1 : 2;  // Half of the area's third row belongs to the area.
        for (u32 c = 0; c < 3; c++)
            if (part.weight[c]) sum += weight * part.weight[c] * brighter_pixel(first, second, top + r, i32(part.first + c));
    }
    return sum % 200 ? u8(sum / 200) : area_as_floats(first, second, x, y);
}

// Returns pixel x, y of the observation of two pictures of `rows` rows, for threads that each compute a pixel.
template <class Rows>
HD u8 observed_pixel(ObservationKind kind, i32 rows, const Rows& first, const Rows& second, u32 x, i32 y) {
    const i32 left = 2 * i32(x);
    if (kind == SUBSAMPLE) return u8(brighter_pixel(first, second, subsampled_row(y, rows), left));
    if (kind == AREA) return area_pixel(first, second, x, y);
    u32 sum = 2;
    for (i32 k = 0; k < 4; k++) sum += brighter_pixel(first, second, 1 + 2 * y + (k >> 1), left + (k & 1));
    return u8(sum / 4);
}

struct Observer {
    ObservationKind kind;
    i32 rows;
    AreaLine* line;           // `line` is `area_line` for AVX-512 or AVX2, or null for the portable function.
    u8 largest[ROWS][WIDTH];  // For MEAN, `largest` has the maximum of two frames, in rows that `at` names.
    u16 at[ROWS];             // `at` maps each picture row to the row of `largest` with the row's values.

    // Writes the observation of one or two frames to `out`. `second` may be null.
    HD void observe(const GrayFrame& first, const GrayFrame* second, u8* out) {
        const GrayFrame& other = second ? *second : first;
        if (kind == SUBSAMPLE) subsample(first, other, out);
        else if (kind == AREA) area(first, other, out);
        else combine(first, other), mean(out);
    }

    HD void subsample(const GrayFrame& first, const GrayFrame& second, u8* out) {
        for (i32 y = 0; y < 104; y++, out += 80) {
            const u8 *a = first.row(subsampled_row(y, rows)), *b = second.row(subsampled_row(y, rows));
            for (i32 x = 0; x < 80; x++) out[x] = a[2 * x] > b[2 * x] ? a[2 * x] : b[2 * x];
        }
    }

    HD void combine(const GrayFrame& first, const GrayFrame& second) {
        for (i32 y = 0; y < ROWS; y++) {
            const u8 *a = first.row(y), *b = second.row(y);
            const bool again = y && a == first.row(y - 1) && b == second.row(y - 1);
            at[y] = again ? at[y - 1] : u16(y);
            if (!again) brighter(a, b, largest[y]);
        }
    }
    HD static void brighter(const u8* __restrict a, const u8* __restrict b, u8* __restrict to) {
        for (i32 x = 0; x < WIDTH; x++) to[x] = a[x] > b[x] ? a[x] : b[x];
    }

    HD void mean(u8* out) {
        for (i32 y = 0; y < 104; y++, out += 80) {
            const u8 *a = largest[at[1 + 2 * y]], *b = largest[at[2 + 2 * y]];
            for (i32 x = 0; x < 80; x++) out[x] = u8((a[2 * x] + a[2 * x + 1] + b[2 * x] + b[2 * x + 1] + 2) / 4);
        }
    }

    HD void area(const GrayFrame& first, const GrayFrame& second, u8* out) {
        u64 halfway[2] = {0, 0};
        for (i32 y = 0; y < 84; y++, out += 84) {
            const i32 top = 5 * (y / 2) + 2 * (y & 1);  // An area of the picture has two and a half rows.
            if (y && !(halfway[0] | halfway[1]) && repeats(first, top - (y & 1 ? 2 : 3), top + 2) &&
                repeats(second, top - (y & 1 ? 2 : 3), top + 2)) {
                copy_bytes(out, out - 84, 84);  // The line of areas equals the line of areas above.
                continue;
            }
            const u8 *const a = first.row(top), *const b = second.row(top), *const c = first.row(top + 2),
                            *const d = second.row(top + 2);
            const u8 *const m = first.row(top + 1), *const n = second.row(top + 1);
            const AreaRows from = y & 1 ? AreaRows{{c, d}, {m, n}, {a, b}} : AreaRows{{a, b}, {m, n}, {c, d}};
            // Computes a line of the observation with integers. The loop below computes means that are halfway between
            // two integers again, in floats.
            line ? line(from, out, halfway) : area_line(from, out, halfway);
            for (u32 word = 0; word < 2; word++)
                for (u64 left = halfway[word]; left; left &= left - 1) {
                    const u32 x = 64 * word + lowest_bit64(left);
                    out[x] = area_as_floats(first, second, x, y);
                }
        }
    }
    // Sources are in ascending order, so if two rows have the same source, all rows between them are equal, too.
    HD static bool repeats(const GrayFrame& frame, i32 from, i32 to) { return frame.source[from] == frame.source[to]; }
};

}  // namespace accel
