// From the gray pictures of an agent step's last two frames to its observation, written in place.
//
//     row of frame 3, row of frame 4 -> maximum -> 104x80       rows 1, 3 ... and every second pixel
//                                               -> 104x80-mean  without the first and the last row, means of 2x2
//                                               -> 84x84        areas of 5/2 rows by 40/21 pixels, as cv2's INTER_AREA
//
// A row that repeats the one above is only named (`source`), and what was made of it is used again.
//
// Areas are sums of whole numbers: 21 x 2 parts of a pixel, 200 to an area. Only a sum halfway between two values leaves
// it to cv2's rounding errors; then the area is added up again as cv2 does, in floats and in its order.
#pragma once
#include "tia.h"

namespace accel {

enum ObservationKind : u8 { SUBSAMPLE, MEAN, AREA, OBSERVATION_KINDS };

constexpr i32 MOST_ROWS = 262;
constexpr i32 ROWS = 210;  // those that MEAN and AREA are made for

struct GrayFrame {
    u8 pixels[MOST_ROWS * WIDTH];
    u16 source[MOST_ROWS];  // the row that holds a row's pixels: itself, or one above

    HD const u8* row(i32 y) const { return pixels + source[y] * WIDTH; }
};

HD i32 observation_height(ObservationKind kind) { return kind == AREA ? 84 : 104; }
HD i32 observation_width(ObservationKind kind) { return kind == AREA ? 84 : 80; }
HD i32 subsampled_row(i32 y, i32 rows) { return 1 + y * (rows - 2) / 104; }

// Whether the observation depends on a row.
HD bool row_counts(ObservationKind kind, i32 row, i32 rows) {
    if (kind == MEAN) return row > 0 && row < rows - 1;
    if (kind == AREA) return true;
    for (i32 y = 0; y < 104; y++)
        if (subsampled_row(y, rows) == row) return true;
    return false;
}

// cv2's weights along one axis: up to four pixels, from `first` on, of each output.
struct AreaAxis {
    struct Part {
        i32 first, count;
        float weight[4];
    } part[84];
};
constexpr AreaAxis area_axis(i32 size) {
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

// Horizontally: 40 parts of 21 of a pixel each; at most three pixels.
struct AreaRow {
    struct Part {
        u16 first, weight[3];
    } part[84];
};
constexpr AreaRow area_row() {
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

struct Observer {
    ObservationKind kind;
    i32 rows;
    u8 largest[ROWS][WIDTH + 8];  // of two frames; a row of it may be unused, see `at`
    u16 at[ROWS];                 // the row of the two that holds a row's

    // `second` may be null: the first alone.
    HD void observe(const GrayFrame& first, const GrayFrame* second, u8* out) {
        if (kind == SUBSAMPLE) subsample(first, second ? *second : first, out);
        else combine(first, second ? *second : first), kind == MEAN ? mean(out) : area(out);
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

    HD void area(u8* out) {
        u16 down[WIDTH + 8], sums[84];
        bool halfway = false;
        for (i32 x = WIDTH; x < WIDTH + 8; x++) down[x] = 0;  // weighs nothing
        for (i32 y = 0; y < 84; y++, out += 84) {
            const i32 top = 5 * (y / 2) + 2 * (y & 1);  // two whole rows and half of the third, or of the first
            const u32 i = at[top], j = at[top + 1], k = at[top + 2];
            if (y && !halfway && i == k && at[top - (y & 1 ? 2 : 3)] == i) {
                __builtin_memcpy(out, out - 84, 84);  // one row, and so was the line above
                continue;
            }
            add_rows(largest[y & 1 ? k : i], largest[j], largest[y & 1 ? i : k], down);
            add_columns(down, sums);
            halfway = divide(sums, out);  // then the line below may be rounded otherwise: its rows weigh in another order
            if (halfway) round_as_floats(y, sums, out);
        }
    }
    HD static void add_rows(const u8* __restrict whole, const u8* __restrict other, const u8* __restrict half, u16* __restrict to) {
        for (i32 x = 0; x < WIDTH; x++) to[x] = u16(2 * (whole[x] + other[x]) + half[x]);
    }
    HD static void add_columns(const u16* __restrict from, u16* __restrict to) {
        static constexpr AreaRow parts = area_row();
        for (i32 period = 0; period < 4; period++, from += 40, to += 21)
#pragma GCC unroll 21
            for (i32 x = 0; x < 21; x++) {
                const AreaRow::Part& p = parts.part[x];
                to[x] = u16(p.weight[0] * from[p.first] + p.weight[1] * from[p.first + 1] + p.weight[2] * from[p.first + 2]);
            }
    }
    // By 200, rounded; whether any of the sums was halfway.
    HD static bool divide(const u16* __restrict sums, u8* __restrict out) {
        u16 halfway = 0;
        for (i32 x = 0; x < 84; x++) {
            const u16 sum = u16(sums[x] + 100), value = u16((sum >> 3) * 5243u >> 17);
            halfway |= sum == u16(value * 200);
            out[x] = u8(value);
        }
        return halfway;
    }

    HD_CALL void round_as_floats(i32 y, const u16* sums, u8* out) {
        static constexpr AreaAxis columns = area_axis(WIDTH), lines = area_axis(ROWS);
        for (i32 x = 0; x < 84; x++) {
            if (sums[x] % 200 != 100) continue;
            const AreaAxis::Part &column = columns.part[x], &line = lines.part[y];
            float total = 0;
            for (i32 r = 0; r < line.count; r++) {
                const u8* const s = largest[at[line.first + r]] + column.first;
                float along = 0;
                for (i32 c = 0; c < column.count; c++) along += s[c] * column.weight[c];
                total += line.weight[r] * along;
            }
            const i32 low = i32(total);
            const float rest = total - float(low);
            out[x] = u8(rest > 0.5f || (rest == 0.5f && low & 1) ? low + 1 : low);
        }
    }
};

}  // namespace accel
