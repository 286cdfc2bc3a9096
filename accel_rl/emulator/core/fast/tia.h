// The fast core's TIA, which applies writes as tia_settle.h does, but draws by bit masks of a line, not pixel by pixel.
// | write -> does it change the picture? -- no --> only the register changes; the drawing stays behind
// |                                      -- yes -> draw up to it with the previous registers
//
// | drawing    a stretch of a line: collisions by AND of masks, colours by priority
// |            the following lines without a change: copies of the first of them
//
// If a program reads collisions, they are computed up to the beam, but the picture is drawn only at the next write. If
// a frame's picture is not needed, only collisions that are not latched yet are computed, and lines in which no objects
// can collide are skipped. The effect of each register write is defined by `apply_write` of tia_settle.h.
#pragma once
#include "log.h"
#include "masks.h"
#include "../observation.h"
#include "../tia_settle.h"

namespace accel {

constexpr u32 ALL_PAIRS = 0x7FFF;

// Writes to the following registers are logged.
// clang-format off
#define FAST_REGISTERS(X) \
    X(VBLANK) X(NUSIZ0) X(NUSIZ1) X(COLUP0) X(COLUP1) X(COLUPF) X(COLUBK) X(CTRLPF) X(REFP0) X(REFP1) X(PF0) X(PF1) X(PF2) \
    X(RESP0) X(RESP1) X(RESM0) X(RESM1) X(RESBL) X(GRP0) X(GRP1) X(ENAM0) X(ENAM1) X(ENABL) X(HMP0) X(HMP1) X(HMM0) X(HMM1) \
    X(HMBL) X(VDELP0) X(VDELP1) X(VDELBL) X(RESMP0) X(RESMP1) X(HMOVE) X(HMCLR) X(CXCLR)
// clang-format on

// Maps each set of objects to its pairs of objects, as bits in the order of the TIA's 15 collision latches.
struct PairTable {
    u16 pairs[64];
    u8 first[15], second[15];
};
HD constexpr PairTable make_pair_table() {
    PairTable t{{},
                {M0, M0, M1, M1, P0, P0, P1, P1, M0, M0, M1, M1, BL, P0, M0},
                {P1, P0, P0, P1, PF, BL, PF, BL, PF, BL, PF, BL, PF, P1, M1}};
    for (u32 set = 0; set < 64; set++)
        for (u32 k = 0; k < 15; k++)
            if (set >> t.first[k] & 1 && set >> t.second[k] & 1) t.pairs[set] = u16(t.pairs[set] | 1 << k);
    return t;
}
HD const PairTable& pair_table() {
    static constexpr PairTable table = make_pair_table();
    return table;
}

// The memory into which a picture is drawn.
struct FastCanvas {
    u8* pixels;         // The picture is [height, 160], or null to compute only collisions.
    const u8* palette;  // Maps each of the 256 colour bytes to the drawn value.
    u16* source;        // Maps each row to the row with the same pixels; if null, repeated rows are copied.
    const u8* wanted;   // wanted[row] is true if the row is needed; null means all rows.

    HD u8* row(i32 y) const { return pixels + y * WIDTH; }
};

// The part of a line from pixel `first` to pixel `last` - 1, in which collisions are latched from pixel `looks` on.
struct Span {
    i32 first, last, looks;
};

// Pointers by which translated ROMs call the drawing functions for the processor's instruction set (stretch_x86.h), and
// for each TIA register a function for its writes, so that these functions are compiled only once.
struct FastTia;
struct Form {
    void (*draw_lines)(FastTia& tia, i32 until);
    void (*look_until)(FastTia& tia, i32 until);
    void (*write[TIA_REGISTERS])(FastTia& tia, u8 value, i32 clock);
};

struct FastTia {
    Tia& t;
    i32 first_line, height;
    bool hmove_blanks;
    u32 watched;       // `watched` are the collisions that the program may read.
    const Form* form;  // `form` is for AVX-512, AVX2 or any processor.
    FastCanvas canvas;
    i32 start, stop;     // The displayed lines of a picture begin at clock `start` and end at clock `stop`.
    i32 row, row_clock;  // The displayed line `row` is being drawn, and row_clock is the line's first clock.
    u8* line;            // `line` is the row's pixels, or null if the row is not drawn.
    i32 looked;          // The collisions before the clock `looked` are latched, or cleared.
    i32 quiet;           // Before the clock `quiet` the beam is in horizontal blank or after the last line.
    Mask mask[6];
    u32 unbuilt;         // The set `unbuilt` has the objects whose masks must be computed again.
    u32 active, filled;  // `active` objects are visible on a line, and `filled` objects have a mask that is not empty.
    u8 shade[4];         // `shade` has the drawn values of the line's four colours.

    HD void begin_frame(const FastCanvas& to) {
        canvas = to;
        start = t.frame_clock + first_line * LINE_CLOCKS;
        stop = start + height * LINE_CLOCKS;
        row = 0;
        row_clock = start;
        looked = start;
        enter_row();
        quiet = start + HBLANK_CLOCKS;
        unbuilt = 63;
        active = 0;
        filled = 63;
        look_at(63);
        for (u32 i = 0; i < 4; i++) mix(i);
    }

    HD void write(u32 reg, u8 value, i32 clock) { form->write[reg](*this, value, clock); }

    HD_FOLD void write_register(u32 reg, u8 value, i32 clock) {
        if (!unseen(reg, value)) draw_until(clock + write_delay(reg, clock - t.frame_clock));
        if (reg == CXCLR) looked = clock;
        if (reg == HMOVE) write_hmove(clock);
        else apply_write(t, *this, reg, value, clock);
        mark(reg);
        if (reg >= COLUP0 && reg <= COLUBK) mix(reg - COLUP0);
    }

    // Handles a write to HMOVE. Only the masks of moved or newly shown objects, often one or two of five, are computed
    // again.
    HD_FOLD void write_hmove(i32 clock) {
        skip_lines(t.settled);
        unbuilt |= t.first_hidden[0] | u32(t.first_hidden[1]) << 1;
        const bool stars = t.star_form;
        unbuilt |= accel::write_hmove(t, clock, line_clock(t, clock));
        if (!stars) return;
        unbuilt |= BIT_M0;
        look_at(BIT_M0);
    }

    // Updates the value to draw for the colour register i.
    HD void mix(u32 i) {
        if (canvas.pixels) shade[i] = canvas.palette[t.colour[i] | t.colour_loss];
    }

    // Returns whether the picture and the collisions until the next write do not depend on this register write.
    HD_FOLD bool unseen(u32 reg, u8 value) const {
        switch (reg) {
                // clang-format off
            case VBLANK: return !((t.vblank ^ value) & 2);
            case NUSIZ0: case NUSIZ1: return t.nusiz[reg - NUSIZ0] == value && !t.first_hidden[reg - NUSIZ0] && !(reg == NUSIZ0 && t.stars);
            case COLUP0: case COLUP1: case COLUPF: case COLUBK: return !canvas.pixels || t.colour[reg - COLUP0] == (value & 0xFE);
            case CTRLPF: return t.ctrlpf == value && t.right_reflected == (value & 1);
            case REFP0: case REFP1: return t.refp[reg - REFP0] == (value >> 3 & 1);
            case PF0: return (t.pf & 0xF) == u32(value) >> 4;
            case PF1: return (t.pf >> 4 & 0xFF) == bit_tables().reversed[value];
            case PF2: return t.pf >> 12 == value;
            case GRP0: return (t.vdel[0] | (t.grp[0] == value)) & (!t.vdel[1] | (t.grp_old[1] == t.grp[1]));
            case GRP1:
                return (t.vdel[1] | (t.grp[1] == value)) & (!t.vdel[0] | (t.grp_old[0] == t.grp[0])) &
                       (!t.vdel[2] | (t.enabl_old == t.enabl));
            case ENAM0: case ENAM1: return t.enam[reg - ENAM0] == (value >> 1 & 1);
            case ENABL: return t.vdel[2] || t.enabl == (value >> 1 & 1);
            case HMM0: return !(t.hm[M0] == 7 && value >> 4 == 6);
            case HMP0: case HMP1: case HMM1: case HMBL: case HMCLR: case CXCLR: return true;
            case VDELP0: case VDELP1: case VDELBL: return t.vdel[reg - VDELP0] == (value & 1);
            case RESMP0: case RESMP1: return t.resmp[reg - RESMP0] == (value >> 1 & 1);
            case RESP0: case RESP1: case RESM0: case RESM1: case RESBL: case HMOVE: return false;
            // clang-format on
            default: return true;
        }
    }

    HD_FOLD void mark(u32 reg) {
        // clang-format off
        static constexpr u8 objects[TIA_REGISTERS] = {
            0, 0, 0, 0, 5, 10, 0, 0, 0, 0, 48, 1, 2, 32, 32, 32, 1, 2, 4, 8, 16, 0, 0, 0, 0, 0, 0, 3, 19, 4, 8, 16,
            0, 0, 0, 0, 0, 1, 2, 16, 4, 8, 0, 0, 0,
        };
        // clang-format on
        static constexpr u8 shows[TIA_REGISTERS] = {
            0, 0, 0, 0, 4, 0,  0, 0, 0,  0, 0, 0, 0, 32, 32, 32, 0,  0, 4, 0, 0, 0, 0,
            0, 0, 0, 0, 3, 19, 4, 8, 16, 0, 0, 0, 0, 0,  1,  2,  16, 4, 8, 0, 0, 0,
        };
        unbuilt |= objects[reg];
        if (shows[reg]) look_at(shows[reg]);
    }

    // Updates the set `active` of visible objects for the given objects.
    HD_FOLD void look_at(u32 objects) {
        u32 on = 0;
        if (objects & BIT_P0) on |= u32((t.vdel[0] ? t.grp_old[0] : t.grp[0]) != 0);
        if (objects & BIT_P1) on |= u32((t.vdel[1] ? t.grp_old[1] : t.grp[1]) != 0) << 1;
        if (objects & BIT_M0) on |= u32(missile_shows(t, 0)) << 2;
        if (objects & BIT_M1) on |= u32(missile_shows(t, 1)) << 3;
        if (objects & BIT_BL) on |= u32((t.vdel[2] ? t.enabl_old : t.enabl) != 0) << 4;
        if (objects & BIT_PF) on |= u32(t.pf != 0) << 5;
        active = (active & ~objects) | on;
    }

    // Empties the masks of objects that are no longer visible, and returns the objects whose masks must be computed.
    HD u32 to_build() {
        u32 ended = filled & ~active;
        filled = active;
        for (; ended; ended &= ended - 1) mask[lowest_bit(ended)] = Mask{};
        const u32 wanted = unbuilt & active;
        unbuilt &= ~active;
        return wanted;
    }
    HD void build() {
        const u32 wanted = to_build();
        if (wanted & BIT_P0) mask[P0] = placed(player_pixels(t, 0));
        if (wanted & BIT_P1) mask[P1] = placed(player_pixels(t, 1));
        if (wanted & BIT_M0) mask[M0] = placed(missile_pixels(t, 0));
        if (wanted & BIT_M1) mask[M1] = placed(missile_pixels(t, 1));
        if (wanted & BIT_BL) mask[BL] = placed(ball_pixels(t));
        if (wanted & BIT_PF) mask[PF] = playfield_mask(t);
    }

    HD_FOLD void draw_until(i32 until) {
        if (until <= t.settled) return;
        if (until > quiet && !(blind() && (!restless() || until < row_clock + LINE_CLOCKS))) draw_lines(until);
        t.settled = until;
    }
    // Draws up to the clock `until`, and makes the TIA's state equal to that in the plain core.
    HD void settle_until(i32 until) {
        draw_until(until);
        skip_lines(until);
    }

    // Returns the pairs of visible objects whose collisions are needed and not latched yet.
    HD u32 possible() const { return pair_table().pairs[active] & watched & ~t.collisions; }
    HD u32 colliding() const { return t.vblank & 2 ? 0 : possible(); }
    HD bool blind() const { return !canvas.pixels && !colliding(); }
    // Returns whether the end of a scan line may change which objects collide on the next line.
    HD bool restless() const { return t.first_hidden[0] | t.first_hidden[1] | t.stars | (t.right_reflected ^ (t.ctrlpf & 1)); }
    // Returns whether the end of a scan line leaves all registers unchanged.
    HD bool calm() const { return !(t.hmove_blank | restless()); }

    HD void draw_lines(i32 until) { form->draw_lines(*this, until); }
    HD void look_lines(i32 until) { form->look_until(*this, until); }

    // Draws lines. `Stretch::stretch` latches the collisions of given pairs of objects in a span, and if its argument
    // for the line's pixels is not null, also draws the span.
    template <class Stretch>
    HD_FOLD void draw_lines_by(i32 until) {
        if (until < row_clock + LINE_CLOCKS) return draw<Stretch>(t.settled, until);
        i32 from = t.settled > start ? t.settled : start;
        const i32 to = until < stop ? until : stop;
        skip_lines(from);
        while (from < to) {
            const i32 row_end = row_clock + LINE_CLOCKS, end = to < row_end ? to : row_end;
            if (end > row_clock + HBLANK_CLOCKS) draw<Stretch>(from, end);
            if (end < row_end) break;
            const bool ends_calmly = calm();
            const bool whole = line_first(from) == 0 && looked <= row_clock + HBLANK_CLOCKS && (line || !canvas.pixels);
            if (!ends_calmly) leave_line();
            from = end;
            row++;
            row_clock = row_end;
            if (ends_calmly && whole && to - from >= LINE_CLOCKS) {
                repeat((to - from) / LINE_CLOCKS);
                from = row_clock;
            }
            enter_row();
        }
        find_quiet();
    }

    // Skips scan lines that end before the clock `from`, and whose ends change nothing except the blank of an HMOVE.
    HD void skip_lines(i32 from) {
        if (from < row_clock + LINE_CLOCKS || row_clock >= stop) return;
        const i32 passed = ((from < stop ? from : stop) - row_clock) / LINE_CLOCKS;
        row += passed;
        row_clock += passed * LINE_CLOCKS;
        end_blank(t, row_clock - LINE_CLOCKS);
        enter_row();
        find_quiet();
    }
    HD void find_quiet() { quiet = row < height ? row_clock + HBLANK_CLOCKS : NEVER; }

    // Latches the collisions before the clock `until`. The picture before `until` is drawn later.
    HD void look_until(i32 until) {
        if ((canvas.pixels ? !calm() : restless()) || colliding()) look_lines(until);
    }
    template <class Stretch>
    HD_FOLD void look_until_by(i32 until) {
        if (until >= row_clock + LINE_CLOCKS) draw_until(until - i32(u32(until - t.frame_clock) % LINE_CLOCKS));
        if (until >= row_clock + LINE_CLOCKS) return draw_until(until);
        const u32 pairs = colliding();
        if (until <= quiet || !pairs) return;
        const i32 from = looked > t.settled ? looked : t.settled;
        if (from < until) Stretch::stretch(*this, nullptr, pairs, Span{0, line_first(until), line_first(from)});
        if (looked < until) looked = until;
    }

    // Returns the pixel of the current row at a clock, or 0 if the clock is before the first pixel.
    HD i32 line_first(i32 clock) const {
        const i32 pixel = clock - row_clock - HBLANK_CLOCKS;
        return pixel > 0 ? pixel : 0;
    }

    HD void enter_row() {
        if (row >= height) return;
        line = canvas.pixels && shown(row) ? canvas.row(row) : nullptr;
        if (canvas.source) canvas.source[row] = u16(row);
    }
    HD bool shown(i32 y) const { return !canvas.wanted || canvas.wanted[y]; }

    HD void leave_line() {
        unbuilt |= u32(t.first_hidden[0]) | u32(t.first_hidden[1]) << 1 | u32(t.right_reflected ^ (t.ctrlpf & 1)) << 5;
        const bool stars = t.stars;
        end_line(t, row_clock);
        if (!stars) return;
        unbuilt |= BIT_M0;
        look_at(BIT_M0);
    }

    // Draws `count` lines as copies of the line above, because no register has changed since.
    HD void repeat(i32 count) {
        for (i32 i = row; canvas.source && i < row + count; i++) canvas.source[i] = u16(row - 1);
        for (i32 i = row; canvas.pixels && !canvas.source && i < row + count; i++)
            copy_bytes(canvas.row(i), canvas.row(row - 1), WIDTH);
        row += count;
        row_clock += count * LINE_CLOCKS;
    }

    // Draws the current row from the clock `from` to the clock `end`, which must be after the row's first pixel.
    template <class Stretch>
    HD_FOLD void draw(i32 from, i32 end) {
        const i32 first = line_first(from), last = end - row_clock - HBLANK_CLOCKS;
        if (t.vblank & 2) {
            if (line) blank(line, first, last);
            return;
        }
        u32 pairs = possible();
        const i32 looks = looked > from ? line_first(looked) : first;
        if (looks >= last) pairs = 0;
        if (!line && !pairs) return;
        Stretch::stretch(*this, line, pairs, Span{first, last, looks});
        if (line && t.hmove_blank && hmove_blanks && first < 8) blank(line, first, last < 8 ? last : 8);
    }

    HD void blank(u8* to, i32 first, i32 last) { fill_pixels(to, canvas.palette[0], first, last); }

    struct PlainStretch {
        HD static void stretch(FastTia& tia, u8* to, u32 pairs, const Span& span) { tia.stretch(to, pairs, span); }
    };
    HD_CALL void stretch(u8* to, u32 pairs, const Span& span) {
        const PairTable& table = pair_table();
        build();
        const Mask looks = span_mask(span.looks, span.last);
        for (; pairs; pairs &= pairs - 1) {
            const u32 k = lowest_bit(pairs);
            const Mask &a = mask[table.first[k]], &b = mask[table.second[k]];
            if ((a.w[0] & b.w[0] & looks.w[0]) | (a.w[1] & b.w[1] & looks.w[1]) | (a.w[2] & b.w[2] & looks.w[2]))
                t.collisions |= 1u << k;
        }
        if (to) paint(to, span_mask(span.first, span.last));
    }

    // Writes each pixel's colour.
    HD void paint(u8* to, const Mask& span) {
        Mask zero, one, two;
        by_priority(mask, t.ctrlpf, zero, one, two);
        spread(to, zero.w, one.w, two.w, span.w, shade);
    }
};

#ifndef __CUDA_ARCH__
template <u32 reg>
void write_to(FastTia& tia, u8 value, i32 clock) {
    tia.write_register(reg, value, clock);
}
inline void write_nothing(FastTia&, u8, i32) {}

constexpr Form form_of(void (*draw_lines)(FastTia&, i32), void (*look_until)(FastTia&, i32)) {
    Form form{draw_lines, look_until, {}};
    for (auto& write : form.write) write = write_nothing;
#define WRITE(reg) form.write[reg] = write_to<reg>;
    FAST_REGISTERS(WRITE)
#undef WRITE
    return form;
}

// The portable form.
inline const Form* plain_form() {
    static constexpr Form form = form_of([](FastTia& tia, i32 until) { tia.draw_lines_by<FastTia::PlainStretch>(until); },
                                         [](FastTia& tia, i32 until) { tia.look_until_by<FastTia::PlainStretch>(until); });
    return &form;
}
#endif

// `apply_write` of tia_settle.h calls draw_until, so that the fast core's TIA draws by bit masks.
HD void draw_until(Tia&, FastTia& fast, i32 until) { fast.draw_until(until); }

}  // namespace accel
