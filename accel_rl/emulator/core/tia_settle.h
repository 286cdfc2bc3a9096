// Applies the logged writes to the TIA ("settles" them): computes collisions, and draws pixels if a picture is needed.
// | settled ......... write + its delay ......... write + its delay ......... until
// |         draw with               draw with                 draw with
// |         the registers           the first write           both
//
// A write becomes visible after a delay of some colour clocks, which depends on the register:
// | VBLANK, REFPx, GRPx 1     NUSIZx 8     PF0-2 2 to 5, by where in a 4-pixel cell of the playfield     others 0
//
// The set of objects that are visible at a pixel, one bit per object, determines the pixel: the object of the highest
// priority gives the colour, and every pair of objects in the set collides.
#pragma once
#include "tia_objects.h"

namespace accel {

constexpr u8 BIT_P0 = 1, BIT_P1 = 2, BIT_M0 = 4, BIT_M1 = 8, BIT_BL = 16, BIT_PF = 32;

// Returns the collision latches that a pixel with this set of visible objects sets.
HD u32 pairs_of(u32 set) {
    // The 15 collision latches in the order of the registers from CXM0P on: in each register bit 7, then bit 6.
    static constexpr u8 pair[15] = {
        BIT_M0 | BIT_P1, BIT_M0 | BIT_P0, BIT_M1 | BIT_P0, BIT_M1 | BIT_P1, BIT_P0 | BIT_PF,
        BIT_P0 | BIT_BL, BIT_P1 | BIT_PF, BIT_P1 | BIT_BL, BIT_M0 | BIT_PF, BIT_M0 | BIT_BL,
        BIT_M1 | BIT_PF, BIT_M1 | BIT_BL, BIT_BL | BIT_PF, BIT_P0 | BIT_P1, BIT_M0 | BIT_M1,
    };
    u32 pairs = 0;
    for (u32 i = 0; i < 15; i++) pairs |= u32((set & pair[i]) == pair[i]) << i;
    return pairs;
}

// Returns bits 7 and 6 of a collision register from CXM0P to CXPPMM.
HD u8 collision_register(u32 collisions, u32 reg) {
    if (reg == 6) return u8((collisions >> 12 & 1) << 7);
    if (reg == 7) return u8((collisions >> 13 & 1) << 7 | (collisions >> 14 & 1) << 6);
    return u8((collisions >> (2 * reg) & 1) << 7 | (collisions >> (2 * reg + 1) & 1) << 6);
}

struct Line {
    u8 set[WIDTH];  // Each pixel from `begin` to `end` has a set of visible objects.
    i32 begin, end;

    HD void put(i32 x, u8 bit) {
        x = wrap(x);
        if (x >= begin && x < end) set[x] |= bit;
    }
};

HD void put_player(Line& line, const Tia& t, u32 i) {
    u32 shape = t.vdel[i] ? t.grp_old[i] : t.grp[i];
    if (!shape) return;
    const u32 stretch = player_stretch(t.nusiz[i]);
    const i32 start = t.pos[i] + (stretch ? 1 : 0);
    const u32 at = copies(t.nusiz[i]) & (t.first_hidden[i] ? ~1u : ~0u);
    for (u32 copy = 0; copy < 5; copy++) {
        if (!(at >> copy & 1)) continue;
        for (i32 pixel = 0; pixel < i32(8u << stretch); pixel++) {
            const i32 column = pixel >> stretch;
            if (shape >> (t.refp[i] ? column : 7 - column) & 1) line.put(wrap(start + 16 * i32(copy)) + pixel, u8(BIT_P0 << i));
        }
    }
}

HD void put_missile(Line& line, const Tia& t, u32 i) {
    if (!missile_shows(t, i)) return;
    const u32 at = copies(t.nusiz[i]);
    for (u32 copy = 0; copy < 5; copy++)
        for (i32 pixel = 0; (at >> copy & 1) && pixel < missile_width(t, i); pixel++)
            line.put(wrap(t.pos[M0 + i] + 16 * i32(copy)) + pixel, u8(BIT_M0 << i));
}

HD void put_ball(Line& line, const Tia& t) {
    if (!(t.vdel[2] ? t.enabl_old : t.enabl)) return;
    for (i32 pixel = 0; pixel < 1 << (t.ctrlpf >> 4 & 3); pixel++) line.put(t.pos[BL] + pixel, BIT_BL);
}

HD void put_playfield(Line& line, const Tia& t) {
    if (!t.pf) return;
    for (i32 x = line.begin; x < line.end; x++) {
        const i32 cell = x / 4 % 20;
        if (t.pf >> (x >= 80 && t.right_reflected ? 19 - cell : cell) & 1) line.set[x] |= BIT_PF;
    }
}

// Returns the colour register (0 to 3) of a pixel with the given set of visible objects.
HD u32 colour_index(u32 set, u8 ctrlpf, bool right) {
    const bool score = (ctrlpf & 6) == 2;
    if (ctrlpf & 4 && set & (BIT_PF | BIT_BL)) return 2;
    if (score && !right && set & BIT_PF) return 0;
    if (set & (BIT_P0 | BIT_M0)) return 0;
    if (set & (BIT_P1 | BIT_M1)) return 1;
    if (score && set & BIT_PF) return right ? 1 : 0;
    return set & (BIT_PF | BIT_BL) ? 2 : 3;
}

// Draws the pixels from `begin` to `end` of one displayed line.
HD void draw_pixels(Tia& t, u8* row, i32 begin, i32 end) {
    if (begin >= end) return;
    i32 x = begin;
    if (t.vblank & 2) {
        for (; row && x < end; x++) row[x] = 0;
        return;
    }
    Line line;
    line.begin = begin;
    line.end = end;
    for (; x < end; x++) line.set[x] = 0;
    put_playfield(line, t);
    for (u32 i = 0; i < 2; i++) put_player(line, t, i), put_missile(line, t, i);
    put_ball(line, t);
    u64 seen = 0;
    for (x = begin; x < end; x++) seen |= u64(1) << line.set[x];
    for (u32 set = 3; set < 64; set++)
        if (seen >> set & 1) t.collisions |= pairs_of(set);
    if (!row) return;
    for (x = begin; x < end; x++) row[x] = t.colour[colour_index(line.set[x], t.ctrlpf, x >= 80)] | t.colour_loss;
}

// Called at the end of a displayed line. Ends the blank of an HMOVE, unless HMOVE was written from cycle 75 of this
// line on, which blanks the next line.
HD void end_blank(Tia& t, i32 line_start) {
    if (t.hmove_clock < line_start + 3 * 75) t.hmove_blank = 0;
}

// Updates the state at the end of a displayed line.
HD void end_line(Tia& t, i32 line_start) {
    end_blank(t, line_start);
    for (u8& hidden : t.first_hidden) hidden = 0;
    t.right_reflected = t.ctrlpf & 1;
    if (!t.stars) return;
    t.stars = u8((t.stars & 3) + 1);
    t.star_form = t.stars == 2 ? 1 : t.stars == 3 ? 2 : 0;
    t.pos[M0] = u8(wrap(t.pos[M0] - star_motion(t.stars)));
}

// Draws the pixels of displayed lines between the clocks `settled` and `until` with the current registers.
HD_CALL void draw_until(Tia& t, const Picture& picture, i32 until) {
    const i32 start = t.frame_clock + picture.first_line * LINE_CLOCKS;
    const i32 stop = start + picture.height * LINE_CLOCKS;
    i32 from = t.settled > start ? t.settled : start;
    if (until > t.settled) t.settled = until;
    const i32 to = until < stop ? until : stop;
    while (from < to) {
        const i32 line = (from - start) / LINE_CLOCKS;
        const i32 line_start = start + line * LINE_CLOCKS;
        const i32 end = to < line_start + LINE_CLOCKS ? to : line_start + LINE_CLOCKS;
        const i32 first = from - line_start - HBLANK_CLOCKS, last = end - line_start - HBLANK_CLOCKS;
        u8* row = picture.pixels ? picture.pixels + line * WIDTH : nullptr;
        draw_pixels(t, row, first > 0 ? first : 0, last);
        if (t.hmove_blank && row && picture.hmove_blanks)
            for (i32 x = first > 0 ? first : 0; x < 8 && x < last; x++) row[x] = 0;
        if (end == line_start + LINE_CLOCKS) {
            end_line(t, line_start);
        }
        from = end;
    }
}

// A write to RESPx resets a player's position, perhaps while copies at the old position are drawn. The effect depends
// on the distance in pixels from the start of an old copy to the new position:
// | 0-3            the new first copy is visible at once
// | 4 ... width+3  the beam is inside the old copy: its next 11 clocks are still drawn
// | others         the old copies are not drawn any more
//
// If the distance from an old copy is not 0 to 3 pixels, the first copy at the new position becomes visible on
// the next line, or after a write to HMOVE or NUSIZ.
struct PlayerReset {
    i32 delay;
    bool hides;  // The first copy is hidden.
};
HD PlayerReset player_reset(u32 nusiz, i32 old_position, i32 at) {
    const i32 position = reset_position(at, 5), width = 8 << player_stretch(u8(nusiz));
    PlayerReset reset{0, true};
    for (u32 copy = 0; copy < 5; copy++) {
        if (!(copies(u8(nusiz)) >> copy & 1)) continue;
        const i32 distance = (position - old_position - 16 * i32(copy) + 2 * WIDTH) % WIDTH;
        if (distance <= 3) reset.hides = false;
        if (distance >= 4 && distance <= width + 3) reset.delay = 11;
    }
    return reset;
}

template <class Target>
HD void reset_player(Tia& t, Target& picture, u32 i, i32 clock) {
    const i32 at = line_clock(t, clock);
    const PlayerReset reset = player_reset(t.nusiz[i], t.pos[i], at);
    if (reset.delay) draw_until(t, picture, clock + reset.delay);
    // A write to RESPx at clock 0 of a scan line takes effect before the line is drawn.
    t.first_hidden[i] = reset.hides && (reset.delay || at);
    t.pos[i] = reset_position(at, 5);
}

// Resets a missile's position, after the missile was drawn at the old position for 8 more clocks. After 8 clocks, the
// beam has passed the missile's first copy (of up to three, by NUSIZ) at the new position, unless the missile is 8
// clocks wide.
template <class Target>
HD void reset_missile(Tia& t, Target& picture, u32 object, i32 clock, u8 position) {
    draw_until(t, picture, clock + 8);
    t.pos[object] = position;
    if (object == M0) t.star_form = 0;
}

HD_FOLD u32 move_object(Tia& t, u32 i, const i8* motions) {
    const i32 motion = motions[t.hm[i]];
    t.pos[i] = u8(wrap(t.pos[i] - motion));
    return u32(motion != 0) << i;
}

// Handles a write to HMOVE, and returns the set of objects that have moved. The calls for the five objects are written
// without a loop, because -O1, with which translated ROMs are compiled, would not unroll the loop.
HD_FOLD u32 write_hmove(Tia& t, i32 clock, i32 at) {
    const i32 cycle = at / 3;
    const i8* const motions = hmove_motions(cycle);
    const u32 moved = move_object(t, P0, motions) | move_object(t, P1, motions) | move_object(t, M0, motions) |
                      move_object(t, M1, motions) | move_object(t, BL, motions);
    t.first_hidden[0] = t.first_hidden[1] = 0;
    t.stars = t.star_form = 0;
    if (cycle <= 20 || cycle >= 75) t.hmove_blank = 1;
    t.hmove_clock = clock;
    return moved;
}

HD u32 reversed_bits(u32 value) {
    u32 result = 0;
    for (u32 i = 0; i < 8; i++) result |= (value >> i & 1) << (7 - i);
    return result;
}

// Applies a write to a TIA register. `picture` is a Picture, or the FastTia of the fast core, which passes a constant
// `reg`.
template <class Target>
// clang-format off
HD_FOLD void apply_write(Tia& t, Target& picture, u32 reg, u8 value, i32 clock) {
    const i32 at = line_clock(t, clock);
    switch (reg) {
        case VBLANK: t.vblank = value; break;
        case NUSIZ0: case NUSIZ1:
            t.nusiz[reg - NUSIZ0] = value;
            t.first_hidden[reg - NUSIZ0] = 0;
            if (reg == NUSIZ0) t.star_form = 0;
            break;
        case COLUP0: case COLUP1: case COLUPF: case COLUBK: t.colour[reg - COLUP0] = value & 0xFE; break;
        case CTRLPF:
            t.ctrlpf = value;
            if (at < HBLANK_CLOCKS + 79) t.right_reflected = value & 1;
            break;
        case REFP0: case REFP1: t.refp[reg - REFP0] = value >> 3 & 1; break;
        case PF0: t.pf = (t.pf & ~0xFu) | value >> 4; break;
        case PF1: t.pf = (t.pf & ~0xFF0u) | reversed_bits(value) << 4; break;
        case PF2: t.pf = (t.pf & ~0xFF000u) | u32(value) << 12; break;
        case RESP0: case RESP1: reset_player(t, picture, reg - RESP0, clock); break;
        case RESM0: case RESM1: case RESBL: {
            const u32 object = M0 + reg - RESM0;
            const i32 late = late_reset_position(object, at / 3, (clock - t.hmove_clock) / 3);
            const u8 position = late < 0 ? reset_position(at, 4) : u8(late);
            if (object == BL) t.pos[BL] = position;
            else reset_missile(t, picture, object, clock, position);
            break;
        }
        case GRP0:
            t.grp[0] = value;
            t.grp_old[1] = t.grp[1];
            break;
        case GRP1:
            t.grp[1] = value;
            t.grp_old[0] = t.grp[0];
            t.enabl_old = t.enabl;
            break;
        case ENAM0: case ENAM1: t.enam[reg - ENAM0] = value >> 1 & 1; break;
        case ENABL: t.enabl = value >> 1 & 1; break;
        case HMP0: case HMP1: case HMM0: case HMM1: case HMBL:
            if (reg == HMM0 && starts_stars(t, value, clock)) t.stars = 1;
            t.hm[reg - HMP0] = value >> 4;
            break;
        case VDELP0: case VDELP1: case VDELBL: t.vdel[reg - VDELP0] = value & 1; break;
        case RESMP0: case RESMP1: {
            const u32 i = reg - RESMP0;
            if (t.resmp[i] && !(value & 2)) t.pos[M0 + i] = locked_missile_position(t.pos[i], t.nusiz[i]);
            t.resmp[i] = value >> 1 & 1;
            break;
        }
        case HMOVE: write_hmove(t, clock, at); break;
        case HMCLR: for (u32 i = 0; i < 5; i++) t.hm[i] = 0; break;
        case CXCLR: t.collisions = 0; break;
        default: break;
    }
}
// clang-format on

HD_CALL void settle_writes(Tia& t, TiaLog& log, const Picture& picture) {
    for (u32 i = 0; i < log.count; i++) {
        const TiaWrite w = log.writes[i];
        draw_until(t, picture, w.clock + write_delay(w.reg, line_clock(t, w.clock)));
        apply_write(t, picture, w.reg, w.value, w.clock);
    }
    log.count = 0;
}

HD void settle(Tia& t, TiaLog& log, const Picture& picture, i32 until) {
    settle_writes(t, log, picture);
    draw_until(t, picture, until);
}

}  // namespace accel
