// The draw kernel computes the observation of an environment from the logs of one or two frames.
// | warp 0     picture of the first shot  --+
// | warp 1     picture of the second shot --+-- in shared memory --> all threads: maximum, resize -> memory
//
// All lanes of a warp read the same entries of the log, and each lane writes its part of a line's pixels
// (core/fast/masks.h).
#pragma once
#include "envs.h"

namespace accel {

// A gray picture has `rows` rows, and source[row] is an earlier row with the same pixels, or `row` itself.
struct GrayRows {
    u8* pixels;   // [rows, WIDTH]
    u16* source;  // [rows]

    HD const u8* row(i32 y) const { return pixels + source[y] * WIDTH; }
};

HD u32 picture_bytes(i32 rows) { return (u32(rows) * (WIDTH + 2) + 15) & ~15u; }

HD GrayRows rows_at(u8* memory, i32 rows) { return GrayRows{memory, reinterpret_cast<u16*>(memory + rows * WIDTH)}; }

// Draws the picture of a frame of environment i.
HD void draw_shot(const StepArguments& a, u32 i, u32 slot, const GrayRows& to) {
    Shot shot;
    load_words(shot, a.envs.shots + u64(slot) * SHOT_WORDS * a.envs.n, a.envs.n, i);
    const Game& game = *a.tables.game;
    FastTia tia{shot.tia, game.first_line, game.height, game.hmove_blanks != 0, 0, plain_form()};
    tia.begin_frame(FastCanvas{to.pixels, a.tables.luminance, to.source, a.tables.wanted});
    tia.settle(a.envs.logs + (u64(i) * 2 + slot) * MOST_LOGGED, shot.writes, shot.until);
}

// Writes the observation of two pictures, or a thread's part of the observation.
HD void observe(const StepArguments& a, const GrayRows& first, const GrayRows& second, u8* out, u32 thread, u32 threads) {
    const ObservationKind kind = a.rules.observation;
    const u32 width = u32(observation_width(kind)), count = observation_bytes(kind);
    for (u32 at = thread; at < count; at += threads)
        out[at] = observed_pixel(kind, a.tables.game->height, first, second, at % width, i32(at / width));
}

// A block of 64 threads draws environment i, where `Block` has the threads' shared memory and barrier.
template <class Block>
HD void draw_block(const StepArguments& a, u32 i, Block& block) {
    const u32 shown = a.envs.shown[i], bytes = observation_bytes(a.rules.observation);
    if (shown == SHOWS_FINISHED) return;
    u8* const out = (a.out.ended[i] ? a.out.final_frame : a.out.frame) + u64(i) * bytes;
    if (shown == SHOWS_ZEROS) {
        for (u32 at = block.thread(); at < bytes; at += block.threads()) out[at] = 0;
        return;
    }
    const i32 rows = a.tables.game->height;
    const GrayRows pictures[2] = {rows_at(block.memory(), rows), rows_at(block.memory() + picture_bytes(rows), rows)};
    for (u32 slot = 0; slot < 2; slot++)
        if (shown >> slot & 1 && block.draws(slot)) draw_shot(a, i, slot, pictures[slot]);
    block.meet();
    const GrayRows &first = pictures[shown & 1 ? 0 : 1], &second = pictures[shown & 2 ? 1 : 0];
    observe(a, first, second, out, block.thread(), block.threads());
}

}  // namespace accel
