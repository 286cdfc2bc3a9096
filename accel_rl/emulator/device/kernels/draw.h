// The draw kernel computes an environment's observation from the row records (rows.h) and the logs of TIA writes of one
// or two frames.
// | thread 0 ... 31     a row each of the first shot's picture  --+
// | thread 32 ... 63    a row each of the second shot's picture --+-- in shared memory --> maximum, resize -> memory
//
// A band contains the picture's rows for twelve lines of the observation. Each thread paints one row of the band. After
// all threads have painted, they write the lines of the observation, and the next band uses the same memory. To paint a
// row, a thread starts from the TIA's registers at the start of the row, and applies the writes of the row. Before each
// visible write, the thread paints up to this write.
#pragma once
#include "rows.h"

namespace accel {

constexpr i32 BAND_LINES = 12;
constexpr i32 BAND_ROWS = 32;             // Twelve lines of AREA need 30 rows, and of SUBSAMPLE from 262 rows as many.
constexpr u32 ROW_WORDS = WIDTH / 4 + 1;  // With an odd number of words, 32 threads write to 32 banks of shared memory.
constexpr u32 SUM_WORDS = WIDTH / 2 + 1;  // A line's sums of columns, two to a word. The last area reads beyond the line.
constexpr u32 BAND_BYTES = 4 * (2 * BAND_ROWS * ROW_WORDS + BAND_LINES * SUM_WORDS);

// Rows of a gray picture, from row `first` on. Rows are `stride` bytes apart.
struct GrayRows {
    const u8* pixels;
    i32 first, stride;

    HD const u8* row(i32 y) const { return pixels + (y - first) * stride; }
};

#ifdef __CUDA_ARCH__
HD u32 bytes_by_index(u32 low, u32 high, u32 chosen) { return __byte_perm(low, high, chosen); }
HD void store_four(u8* at, u32 four) { *reinterpret_cast<u32*>(at) = four; }
#else
// Returns four of the eight bytes of `low` and `high`, whose numbers (0-7) are the four lowest hexadecimal digits of
// `chosen`.
HD u32 bytes_by_index(u32 low, u32 high, u32 chosen) {
    const u64 bytes = low | u64(high) << 32;
    u32 four = 0;
    for (u32 k = 0; k < 4; k++) four |= u32(bytes >> (8 * (chosen >> (4 * k) & 7)) & 255) << (8 * k);
    return four;
}
HD void store_four(u8* at, u32 four) { copy_bytes(at, &four, 4); }
#endif

// Moves bit k of a byte to bit 4 * k.
HD u32 nibbles(u32 bits) {
    bits = (bits | bits << 12) & 0x000F000F;
    bits = (bits | bits << 6) & 0x03030303;
    return (bits | bits << 3) & 0x11111111;
}

// Paints one row of a picture.
class RowPainter {
  public:
    HD RowPainter(const StepArguments& a, u32 i, u32 slot, i32 row, u32* to)
        : to_(to), luminance_(a.tables.luminance), log_(a.envs.logs + (u64(i) * 2 + slot) * MOST_LOGGED) {
        const u32* const shot = a.envs.shots + u64(slot) * SHOT_WORDS * a.envs.n + i;
        frame_clock_ = i32(shot[0]);  // host.h asserts the places of these words.
        writes_ = shot[u64(sizeof(Tia) / 4) * a.envs.n];
        const PictureRows rows = picture_rows(a, i, slot);
        r_ = rows.start[rows.record_of(row)];
        next_ = r_.blank >> 16;
        r_.blank &= 0xFFFF;
        first_pixel_ = frame_clock_ + (a.tables.game->first_line + row) * LINE_CLOCKS + HBLANK_CLOCKS;
        hmove_blanks_ = a.tables.game->hmove_blanks != 0;
    }

    HD void paint() {
        for (Action action = turns(); action != DONE; action = turns()) {
            if (action == COMPOSES) compose();
            else flush();
        }
        flush();
    }

  private:
    enum Action { APPLIED, COMPOSES, FLUSHES, DONE };

    HD Action turns() {
        Action action = APPLIED;
        while (action == APPLIED) action = turn();
        return action;
    }

    // Applies the next write of the row, or returns what must be painted before the write.
    HD Action turn() {
        Written w{r_, first_pixel_ + WIDTH, 0, STORES, false};
        if (next_ < writes_) w = written(r_, log_[next_], frame_clock_);
        const i32 x = w.until - first_pixel_;
        const bool ends = x >= WIDTH || next_ == writes_;
        end_ = ends ? WIDTH : x > end_ ? x : end_;
        const u32 colours = r_.colours ^ w.next.colours;
        if (end_ > composed_ && (ends || colours || (r_.field ^ w.next.field) & BLANKS || differs(r_, w.next))) return COMPOSES;
        if (ends) return DONE;
        if (colours && composed_ > flushed_) return FLUSHES;
        r_ = w.next;
        next_++;
        return APPLIED;
    }

    // Selects one of four colours for each pixel up to `end_`.
    HD void compose() {
        const Mask span = span_mask(composed_, end_);
        const ObjectMasks objects = object_masks(r_);
        Mask zero, one, two;
        by_priority(objects.of, u8(r_.ctrlpf()), zero, one, two);
        for (u32 i = 0; i < 3; i++) {
            low_.w[i] |= span.w[i] & ~(zero.w[i] | two.w[i]);
            high_.w[i] |= span.w[i] & ~(zero.w[i] | one.w[i]);
            if (r_.is_blank()) black_.w[i] |= span.w[i];
        }
        if (r_.field & BLANKS && hmove_blanks_) black_.w[0] |= span.w[0] & 255;
        composed_ = end_;
    }

    // Writes the pixels from `flushed_` to the end of the row. A later call overwrites the pixels after `composed_`.
    HD void flush() {
        u32 palette = 0;
        const u32 lost = r_.blank & LOSES_COLOUR ? 1 : 0, black = luminance_[0] * 0x01010101u;
        for (u32 i = 0; i < 4; i++) palette |= u32(luminance_[(r_.colours >> (8 * i) & 255) | lost]) << (8 * i);
        for (u32 i = 0; i < 3; i++)
            for (u32 k = 0; k < (i < 2 ? 64u : 32u); k += 8) {
                const u32 chosen =
                    nibbles(low_.w[i] >> k & 255) | nibbles(high_.w[i] >> k & 255) << 1 | nibbles(black_.w[i] >> k & 255) << 2;
                const u32 word = 16 * i + k / 4;
                put(word, bytes_by_index(palette, black, chosen));
                put(word + 1, bytes_by_index(palette, black, chosen >> 16));
            }
        flushed_ = composed_;
    }
    HD void put(u32 word, u32 four) {
        const i32 painted = flushed_ - 4 * i32(word);
        if (painted >= 4) return;
        const u32 keeps = painted > 0 ? (1u << (8 * painted)) - 1 : 0;
        to_[word] = keeps ? (to_[word] & keeps) | (four & ~keeps) : four;
    }

    u32* const to_;  // [WIDTH / 4]
    const u8* const luminance_;
    const FastWrite* const log_;
    Registers r_;
    u32 next_, writes_;
    i32 frame_clock_, first_pixel_;
    bool hmove_blanks_;
    Mask low_{}, high_{}, black_{};  // The number of each pixel's colour, and black instead of the colour.
    i32 end_ = 0, composed_ = 0, flushed_ = 0;
};

// Returns the larger one of two bytes in each of the two 16-bit halves of a word.
HD u32 larger_halves(u32 a, u32 b) {
    const u32 wins = (((a | 0x01000100) - b) >> 8 & 0x00010001) * 255;
    return (a & wins) | (b & ~wins);
}

// Weighted sums of four columns for a line of areas. Two whole rows have weight 2, and half of a third row has weight
// 1.
struct ColumnSums {
    u32 even = 0, odd = 0;

    HD void add(u32 weight, u32 a, u32 b) {
        even += weight * larger_halves(a & 0x00FF00FF, b & 0x00FF00FF);
        odd += weight * larger_halves(a >> 8 & 0x00FF00FF, b >> 8 & 0x00FF00FF);
    }
};

HD const u32* words(const u8* bytes) { return reinterpret_cast<const u32*>(bytes); }

// Writes the lines `line` to `end` - 1 of an 84x84 observation of two pictures.
template <class Block>
HD void observe_areas(Block& block, const GrayRows& first, const GrayRows& second, u32* sums, u8* out, i32 line, i32 end) {
    static constexpr AreaRow parts = area_row();
    constexpr u32 ROW = WIDTH / 4, LINE = 84 / 4;
    const u32 lines = u32(end - line);
    for (u32 at = block.thread(); at < lines * ROW; at += block.threads()) {
        const i32 y = line + i32(at / ROW), top = 5 * (y / 2) + 2 * (y & 1);
        const u32 k = at % ROW;
        ColumnSums sum;
        for (i32 r = 0; r < 3; r++)
            sum.add(r == (y & 1 ? 0 : 2) ? 1 : 2, words(first.row(top + r))[k], words(second.row(top + r))[k]);
        u32* const to = sums + at / ROW * SUM_WORDS + 2 * k;
        to[0] = (sum.even & 0xFFFF) | sum.odd << 16;
        to[1] = sum.even >> 16 | (sum.odd & 0xFFFF0000);
    }
    block.meet();
    for (u32 at = block.thread(); at < lines * LINE; at += block.threads()) {
        const i32 y = line + i32(at / LINE);
        const u32* const from = sums + at / LINE * SUM_WORDS;
        u32 four = 0;
        for (u32 k = 0; k < 4; k++) {
            const u32 x = 4 * (at % LINE) + k;
            const AreaRow::Part& part = parts.part[x];
            u32 sum = 100;
            for (u32 c = 0; c < 3; c++) {
                const u32 column = part.first + c;
                sum += part.weight[c] * (from[column / 2] >> (16 * (column & 1)) & 0xFFFF);
            }
            u32 value = (sum >> 3) * 5243 >> 17;  // sum / 200
            if (value * 200 == sum) value = area_as_floats(first, second, x, y);
            four |= value << (8 * k);
        }
        store_four(out + 84 * y + 4 * (at % LINE), four);
    }
}

// Writes the pixels of one thread in the lines `line` to `end` - 1 of the observation of two pictures.
HD void observe(const StepArguments& a, const GrayRows& first, const GrayRows& second, u8* out, i32 line, i32 end, u32 thread,
                u32 threads) {
    const ObservationKind kind = a.rules.observation;
    const u32 width = u32(observation_width(kind));
    for (u32 at = u32(line) * width + thread; at < u32(end) * width; at += threads)
        out[at] = observed_pixel(kind, a.tables.game->height, first, second, at % width, i32(at / width));
}

// Draws the observation of environment i by a block of 64 threads. `Block` has a shared memory of BAND_BYTES bytes and
// a barrier for the 64 threads.
template <class Block>
HD void draw_block(const StepArguments& a, u32 i, Block& block) {
    const u32 shown = a.envs.shown[i], bytes = observation_bytes(a.rules.observation);
    if (shown == SHOWS_FINISHED) return;
    u8* const out = (a.out.ended[i] ? a.out.final_frame : a.out.frame) + u64(i) * bytes;
    if (shown == SHOWS_ZEROS) {
        for (u32 at = block.thread(); at < bytes; at += block.threads()) out[at] = 0;
        return;
    }
    const ObservationKind kind = a.rules.observation;
    const i32 lines = observation_height(kind), height = a.tables.game->height;
    u32 *const band = block.memory(), *const sums = band + 2 * BAND_ROWS * ROW_WORDS;
    for (i32 line = 0, first = 0; line < lines; line += BAND_LINES) {
        const i32 line_end = line + BAND_LINES < lines ? line + BAND_LINES : lines, end = rows_of_lines(kind, line_end, height);
        for (u32 at = block.thread(); at < 2 * BAND_ROWS; at += block.threads()) {
            const u32 slot = at / BAND_ROWS;
            const i32 row = first + i32(at % BAND_ROWS);
            if (shown >> slot & 1 && row < end) RowPainter(a, i, slot, row, band + at * ROW_WORDS).paint();
        }
        block.meet();
        const auto picture = [band, first](u32 slot) {
            return GrayRows{reinterpret_cast<const u8*>(band + slot * BAND_ROWS * ROW_WORDS), first, 4 * ROW_WORDS};
        };
        const GrayRows one = picture(shown & 1 ? 0 : 1), two = picture(shown & 2 ? 1 : 0);
        if (kind == AREA) observe_areas(block, one, two, sums, out, line, line_end);
        else observe(a, one, two, out, line, line_end, block.thread(), block.threads());
        block.meet();
        first = end;
    }
}

}  // namespace accel
