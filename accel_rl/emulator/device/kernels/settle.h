// The TIA of one lane of the step kernel: computes registers and collisions, but no picture.
// | the log     write, write, write ...      a turn of all lanes: each applies its next write, by the same instructions
// | a search    collisions of a stretch      only if the next write changes an object that can still collide: the lane
// |                                          waits for the other lanes, and all that need a search do it together
//
// A search for collisions may span several scan lines if the registers do not change.
#pragma once
#include "../../core/fast/bus.h"
#include "registers.h"

namespace accel {

// Maximum number of writes that a lane applies between two searches for collisions. With fewer writes, lanes wait less
// for each other, but search more often.
constexpr u32 MOST_TURNS = 4;

// Returns the pairs of objects that contain an object of the set `objects`.
HD u32 pairs_with(u32 objects) { return ALL_PAIRS & ~pair_table().pairs[63 & ~objects]; }

HD u32 meets(const Mask& a, const Mask& b, const Mask& span) {
    return ((a.w[0] & b.w[0] & span.w[0]) | (a.w[1] & b.w[1] & span.w[1]) | (a.w[2] & b.w[2] & span.w[2])) != 0;
}

struct LaneTia {
    Tia& t;
    i32 first_line, height;
    Registers r;
    i32 start, stop;  // The displayed lines begin at clock `start` and end at clock `stop`.
    i32 row_clock;    // The registers are those of the displayed line that begins at row_clock, or of lines before it.
    i32 searched;     // The collisions before the clock `searched` are latched, or cleared.

    HD void begin_frame() {
        r = registers_of(t);
        row_clock = start = t.frame_clock + first_line * LINE_CLOCKS;
        stop = start + height * LINE_CLOCKS;
        searched = t.settled;
    }
    // Prepares a frame of which no picture is computed, because it has already ended (see continue_start in step.h).
    HD void skip_frame() {
        stop = NEVER;
        row_clock = NEVER - LINE_CLOCKS;
    }
    // At the end of a frame, copies the registers of this TIA to the console's struct Tia.
    HD void end_frame() { store(r, t); }

    HD void settle_writes(const FastWrite* log, u32 count) { settle(log, count, count, 0); }
    HD void settle(const FastWrite* log, u32 count, i32 until) { settle(log, count, count + 1, until); }

  private:
    HD_CALL void settle(const FastWrite* log, u32 count, u32 turns, i32 until) {
        Settling s{*this, log, count, turns, until, t.frame_clock, t.settled, t.collisions, r.active(), r, row_clock, searched};
        while (s.next < turns)
            if (s.needs_search()) s.search();
        r = s.r, row_clock = s.row_clock, searched = s.searched;
        t.settled = s.settled, t.collisions = s.collisions;
    }

    // The local variables of the function `settle`, which a GPU keeps in registers.
    struct Settling {
        const LaneTia& tia;
        const FastWrite* log;
        u32 count, turns;
        i32 until, frame_clock;
        i32 settled;  // All writes before it have been applied.
        u32 collisions, active;
        Registers r;
        i32 row_clock, searched;
        u32 next = 0;

        // Applies up to MOST_TURNS TIA writes. Returns true when collisions before the clock `settled` must be searched
        // before the next write.
        HD bool needs_search() {
            for (u32 k = 0; k < MOST_TURNS && next < turns; k++)
                if (turn()) return true;
            return false;
        }

        // Applies the next write. If all writes have been applied, advances to the clock `until`.
        HD bool turn() {
            const bool writes = next < count;
            Written w = writes ? written(r, log[next], frame_clock) : Written{r, until, 63, STORES, false};
            const i32 to = w.until > settled ? w.until : settled, row_end = row_clock + LINE_CLOCKS;
            const bool leaves = row_clock < tia.stop && to >= row_end, ends = leaves && r.restless();
            settled = ends ? row_end : to;
            if (ends) {
                w.next = r;
                end_line(w.next, row_clock);
            } else if (leaves) {
                pass_rows(w);
            }
            const bool clears = w.kind == CLEARS_COLLISIONS, changes = !writes || ends || differs(r, w.next);
            const u32 now_active = w.next.active();
            const u32 open = pair_table().pairs[active | now_active] & pairs_with(ends ? 63 : w.objects) & ~collisions;
            if (r.is_blank() || !has_pixels()) searched = settled;
            else if (open && changes && !clears) return true;
            if (clears && !ends) {
                collisions = 0;
                searched = settled;
            }
            r = w.next;
            active = now_active;
            if (ends) row_clock = row_end;
            else next++;
            return false;
        }

        // Skips rows that end before the clock `settled`, and whose ends change nothing except the blank of an HMOVE.
        HD void pass_rows(Written& w) {
            const i32 to = settled < tia.stop ? settled : tia.stop;
            row_clock += (to - row_clock) / LINE_CLOCKS * LINE_CLOCKS;
            end_blank(r, row_clock - LINE_CLOCKS);
            if (!w.blanks) w.next.field = (w.next.field & ~u32(BLANKS)) | (r.field & BLANKS);
        }

        HD i32 first() const { return searched > tia.start ? searched : tia.start; }
        HD i32 last() const { return settled < tia.stop ? settled : tia.stop; }
        HD bool has_pixels() const { return first() < last() && (first() < row_clock || last() > row_clock + HBLANK_CLOCKS); }

        // Searches the clocks from `searched` to `settled` for collisions, and latches them.
        HD void search() {
            const i32 from = first() - tia.start, to = last() - tia.start;
            const i32 x = from % LINE_CLOCKS - HBLANK_CLOCKS, end = to % LINE_CLOCKS - HBLANK_CLOCKS;
            const bool wraps = from / LINE_CLOCKS < to / LINE_CLOCKS, whole = to - from >= LINE_CLOCKS;
            Mask span = span_mask(whole ? 0 : x, wraps ? WIDTH : end);
            const Mask rest = span_mask(0, wraps ? end : 0);
            for (u32 i = 0; i < 3; i++) span.w[i] |= rest.w[i];
            const ObjectMasks m = object_masks(r);
            const Mask &p0 = m.of[P0], &p1 = m.of[P1], &m0 = m.of[M0], &m1 = m.of[M1], &bl = m.of[BL], &pf = m.of[PF];
            collisions |= meets(m0, p1, span) | meets(m0, p0, span) << 1 | meets(m1, p0, span) << 2 | meets(m1, p1, span) << 3 |
                          meets(p0, pf, span) << 4 | meets(p0, bl, span) << 5 | meets(p1, pf, span) << 6 |
                          meets(p1, bl, span) << 7 | meets(m0, pf, span) << 8 | meets(m0, bl, span) << 9 |
                          meets(m1, pf, span) << 10 | meets(m1, bl, span) << 11 | meets(bl, pf, span) << 12 |
                          meets(p0, p1, span) << 13 | meets(m0, m1, span) << 14;
            searched = settled;
        }
    };
};

using FastBus = Bus<FastLog, LaneTia>;

}  // namespace accel
