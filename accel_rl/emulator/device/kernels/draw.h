// The draw kernel computes the observation of an environment from the logs of one or two frames.
// | warp 0     a band of the first shot's picture  --+
// | warp 1     a band of the second shot's picture --+-- in shared memory --> all threads: maximum, resize -> memory
//
// A band has the rows for eight lines of the observation. The warps draw a band of both pictures and meet, all threads write
// the lines, and the next band takes the same memory.
// All lanes of a warp read the same entries of the log, and each lane writes its part of a line's pixels
// (core/fast/masks.h).
#pragma once
#include "envs.h"

namespace accel {

constexpr i32 BAND_LINES = 8;
constexpr i32 BAND_ROWS = 20;  // The rows for eight lines of AREA, or of SUBSAMPLE from 262 rows.
constexpr u32 BAND_BYTES = (BAND_ROWS * (WIDTH + 2) + 2 + 15) & ~15u;

// A gray picture's rows from `first` on, where source[row - first] is an earlier row with the same pixels, or `row` itself.
struct GrayRows {
    u8* pixels;   // [rows, WIDTH]
    u16* source;  // [rows]
    i32 first;

    HD const u8* row(i32 y) const { return pixels + (source[y - first] - first) * WIDTH; }
};

HD GrayRows band_rows(u8* memory, i32 first) {
    return GrayRows{memory, reinterpret_cast<u16*>(memory + BAND_ROWS * WIDTH), first};
}

// A Drawing draws the picture of a frame, band by band, into one memory.
class Drawing {
  public:
    // Draws the frame `slot` (0 or 1) of environment i. `memory` has BAND_BYTES bytes.
    HD Drawing(const StepArguments& a, u32 i, u32 slot, u8* memory)
        : log_(a.envs.logs + (u64(i) * 2 + slot) * MOST_LOGGED),
          tia_{shot_.tia, a.tables.game->first_line, a.tables.game->height, a.tables.game->hmove_blanks != 0, 0, plain_form()} {
        load_words(shot_, a.envs.shots + u64(slot) * SHOT_WORDS * a.envs.n, a.envs.n, i);
        const GrayRows rows = band_rows(memory, 0);
        tia_.begin_frame(FastCanvas{rows.pixels, a.tables.luminance, rows.source, a.tables.wanted, 0});
    }

    // Draws the rows from `first` to `end` - 1, where `first` is the last call's `end`.
    // The row `end` begins with horizontal blank, in which the writes before it take effect without drawing its pixels.
    HD void draw_rows(i32 first, i32 end) {
        tia_.next_rows(first);
        const i32 clock = tia_.start + end * LINE_CLOCKS;
        u32 count = 0;
        while (count < shot_.writes && 3 * log_[count].cycle() <= clock) count++;
        tia_.settle(log_, count, clock + LONGEST_DELAY);
        log_ += count;
        shot_.writes -= count;
    }

  private:
    static constexpr i32 LONGEST_DELAY = 8;  // of write_delay

    const FastWrite* log_;  // The writes that are not settled.
    Shot shot_;
    FastTia tia_;
};

// Writes the lines from `line` to `end` - 1 of the observation of two pictures, or a thread's part of the lines.
HD void observe(const StepArguments& a, const GrayRows& first, const GrayRows& second, u8* out, i32 line, i32 end, u32 thread,
                u32 threads) {
    const ObservationKind kind = a.rules.observation;
    const u32 width = u32(observation_width(kind));
    for (u32 at = u32(line) * width + thread; at < u32(end) * width; at += threads)
        out[at] = observed_pixel(kind, a.tables.game->height, first, second, at % width, i32(at / width));
}

// A block of 64 threads draws environment i. `Block` has the threads' shared memory of two bands, their barrier, and
// `each_drawing`, which calls a function for both slots on a CPU, and for the slot of a thread's warp on a GPU.
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
    const i32 lines = observation_height(kind), rows = a.tables.game->height;
    for (i32 line = 0, first = 0; line < lines; line += BAND_LINES) {
        const i32 line_end = line + BAND_LINES < lines ? line + BAND_LINES : lines, end = rows_of_lines(kind, line_end, rows);
        block.each_drawing([=](u32 slot, Drawing& drawing) {
            if (shown >> slot & 1) drawing.draw_rows(first, end);
        });
        block.meet();
        const GrayRows pictures[2] = {band_rows(block.memory(), first), band_rows(block.memory() + BAND_BYTES, first)};
        observe(a, pictures[shown & 1 ? 0 : 1], pictures[shown & 2 ? 1 : 0], out, line, line_end, block.thread(),
                block.threads());
        block.meet();
        first = end;
    }
}

}  // namespace accel
