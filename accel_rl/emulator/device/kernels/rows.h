// The rows kernel computes the TIA's registers at the start of each row of a picture, without drawing pixels.
// | the log     write, write ... | row 0: write ... | row 1 ...     a thread a picture
// | records     the registers at the start of row 0, row 1 ..., each with the row's first write
//
// From a row's record, a thread of the draw kernel can paint the row without other rows. A row without a record equals
// the row above: neither row has a write, and the end of the row above changes no register.
#pragma once
#include "envs.h"
#include "registers.h"

namespace accel {

#ifdef __CUDA_ARCH__
HD u32 highest_bit(u32 bits) { return 31 - u32(__clz(int(bits))); }
#else
HD u32 highest_bit(u32 bits) {
    u32 place = 0;
    while (bits >>= 1) place++;
    return place;
}
#endif

// The records of a picture's rows. The upper half of the word `blank` of a record is the index of the row's first write
// in the log.
struct PictureRows {
    Registers* start;  // [height]
    u32* recorded;     // Bit y % 32 of the word y / 32 is set if row y has a record.

    HD i32 record_of(i32 y) const {
        i32 word = y >> 5;
        u32 bits = recorded[word] & ((2u << (y & 31)) - 1);
        while (!bits && word) bits = recorded[--word];
        return 32 * word + i32(highest_bit(bits));
    }
};

// The words of `recorded` are stored after the records, in the space of two more records (262 rows need 9 words).
constexpr u32 RECORDED_ROWS = 2;
HD PictureRows picture_rows(const StepArguments& a, u32 i, u32 slot) {
    const u32 height = u32(a.tables.game->height);
    Registers* const first = a.envs.rows + (u64(i) * 2 + slot) * (height + RECORDED_ROWS);
    return PictureRows{first, reinterpret_cast<u32*>(first + height)};
}

class RowRecorder {
  public:
    HD RowRecorder(const PictureRows& rows) : rows_(rows) {}

    HD void record(i32 y, const Registers& r, u32 first_write) {
        Registers start = r;
        start.blank |= first_write << 16;
        rows_.start[y] = start;
        pass_words(y >> 5);
        bits_ |= 1u << (y & 31);
    }
    HD void pass_words(i32 word) {
        for (; word_ < word; word_++, bits_ = 0) rows_.recorded[word_] = bits_;
    }

  private:
    const PictureRows& rows_;
    i32 word_ = 0;
    u32 bits_ = 0;
};

// Computes the records of the rows of frame `slot` (0 or 1) of environment i.
HD void record_rows(const StepArguments& a, u32 i, u32 slot) {
    if (!(a.envs.shown[i] >> slot & 1)) return;
    Shot shot;
    load_words(shot, a.envs.shots + u64(slot) * SHOT_WORDS * a.envs.n, a.envs.n, i);
    const FastWrite* const log = a.envs.logs + (u64(i) * 2 + slot) * MOST_LOGGED;
    const i32 height = a.tables.game->height, start = shot.tia.frame_clock + a.tables.game->first_line * LINE_CLOCKS;
    const PictureRows rows = picture_rows(a, i, slot);
    RowRecorder recorder(rows);
    Registers r = registers_of(shot.tia);
    i32 row = -1, settled = start - LINE_CLOCKS;
    bool changes = true;  // The row has a write, or it is above the picture.
    for (u32 n = 0;;) {
        Written w{r, start + height * LINE_CLOCKS, 0, STORES, false};
        if (n < shot.writes) w = written(r, log[n], shot.tia.frame_clock);
        if (w.until > settled) settled = w.until;
        const i32 row_clock = start + row * LINE_CLOCKS;
        if (settled < row_clock + LINE_CLOCKS) {
            r = w.next;
            changes = true;
            n++;
            continue;
        }
        const bool calm = !changes && r.calm();
        if (row >= 0 && !calm) end_line(r, row_clock);
        row = calm ? (settled - start) / LINE_CLOCKS : row + 1;
        if (row >= height) break;
        recorder.record(row, r, n);
        changes = false;
    }
    recorder.pass_words((height + 31) >> 5);
}

}  // namespace accel
