// The TIA's registers packed into eight words, which fit into a GPU thread's registers.
// | shapes   GRP0, GRP1, their old values        places   positions of P0, P1, M0, M1
// | colours  COLUP0, COLUP1, COLUPF, COLUBK      modes    NUSIZ0, NUSIZ1, CTRLPF, position of BL
// | field    playfield, and flags of the line    motion   HMxx, and flags of the objects
//
// A table describes each register's write by a word, a rotation and a mask, so that threads that write different
// registers execute the same instructions. Only writes that move objects need branches. The effects and delays of
// writes are those of `apply_write` in tia_settle.h.
#pragma once
#include "../../core/fast/log.h"
#include "../../core/fast/masks.h"
#include "../../core/tia_settle.h"

namespace accel {

// Flags in the word `field`, above the 20 bits of the playfield, and in the word `motion`, above the five objects'
// motions of 4 bits each.
enum FieldFlag : u32 { REFLECTED = 1u << 20, HIDDEN = 1u << 21, BLANKS = 1u << 23, STARS = 1u << 24, FORM = 1u << 27 };
enum MotionFlag : u32 {
    REFLECTS = 1u << 20,
    MISSILE = 1u << 22,
    BALL = 1u << 24,
    OLD_BALL = 1u << 25,
    DELAYED = 1u << 26,
    LOCKED = 1u << 29
};
constexpr u32 ALL_HIDDEN = 3 * HIDDEN, ALL_STARS = 7 * STARS, ALL_FORMS = 3 * FORM, ALL_MOTIONS = 0xFFFFF;
constexpr u32 LOSES_COLOUR = 256;  // A flag of `blank`, above the byte of VBLANK.

struct Registers {
    u32 shapes, colours, places, modes, field, motion, blank;
    i32 hmove_clock;

    HD bool is_blank() const { return blank & 2; }
    HD u32 ctrlpf() const { return modes >> 16 & 255; }
    HD u32 stars() const { return field / STARS & 7; }
    HD u32 form() const { return field / FORM & 3; }
    HD u32 place(u32 object) const { return object == BL ? modes >> 24 : places >> (8 * object) & 255; }
    HD u32 nusiz(u32 player) const { return modes >> (8 * player) & 255; }

    // Returns whether the end of a scan line may change which pixels the objects cover.
    HD bool restless() const { return field & (ALL_HIDDEN | ALL_STARS) || !(field & REFLECTED) != !(ctrlpf() & 1); }
    HD bool calm() const { return !(field & BLANKS) && !restless(); }

    // Returns the mask of the visible shapes in the word `shapes`. A player whose register VDELPx is set shows its old
    // shape.
    HD u32 visible_shapes() const {
        return (motion & DELAYED ? 0xFF0000u : 0xFFu) | (motion & 2u * DELAYED ? 0xFF000000u : 0xFF00u);
    }
    HD bool ball() const { return motion & (motion & 4 * DELAYED ? OLD_BALL : BALL); }

    // Returns the set of visible objects.
    HD u32 active() const {
        const u32 seen = shapes & visible_shapes(), shown = motion / MISSILE & ~(motion / LOCKED) & (form() == 2 ? 2 : 3);
        return u32((seen & 0x00FF00FF) != 0) * BIT_P0 | u32((seen & 0xFF00FF00) != 0) * BIT_P1 | shown * BIT_M0 |
               u32(ball()) * BIT_BL | u32((field & 0xFFFFF) != 0) * BIT_PF;
    }
};

HD Registers registers_of(const Tia& t) {
    Registers r{};
    for (u32 i = 0; i < 4; i++) r.colours |= u32(t.colour[i]) << (8 * i), r.places |= u32(t.pos[i]) << (8 * i);
    for (u32 i = 0; i < 5; i++) r.motion |= u32(t.hm[i] & 15) << (4 * i);
    for (u32 i = 0; i < 2; i++) {
        r.shapes |= u32(t.grp[i]) << (8 * i) | u32(t.grp_old[i]) << (16 + 8 * i);
        r.modes |= u32(t.nusiz[i]) << (8 * i);
        r.field |= t.first_hidden[i] ? HIDDEN << i : 0;
        r.motion |= (t.refp[i] ? REFLECTS << i : 0) | (t.enam[i] ? MISSILE << i : 0) | (t.resmp[i] ? LOCKED << i : 0);
    }
    for (u32 i = 0; i < 3; i++) r.motion |= t.vdel[i] ? DELAYED << i : 0;
    r.motion |= (t.enabl ? BALL : 0) | (t.enabl_old ? OLD_BALL : 0);
    r.modes |= u32(t.ctrlpf) << 16 | u32(t.pos[BL]) << 24;
    r.field |= (t.pf & 0xFFFFF) | (t.right_reflected ? REFLECTED : 0) | (t.hmove_blank ? BLANKS : 0) | (t.stars & 7) * STARS |
               (t.star_form & 3) * FORM;
    r.blank = t.vblank | (t.colour_loss ? LOSES_COLOUR : 0);
    r.hmove_clock = t.hmove_clock;
    return r;
}

HD void store(const Registers& r, Tia& t) {
    for (u32 i = 0; i < 4; i++) t.colour[i] = u8(r.colours >> (8 * i)), t.pos[i] = u8(r.places >> (8 * i));
    for (u32 i = 0; i < 5; i++) t.hm[i] = r.motion >> (4 * i) & 15;
    for (u32 i = 0; i < 2; i++) {
        t.grp[i] = u8(r.shapes >> (8 * i)), t.grp_old[i] = u8(r.shapes >> (16 + 8 * i));
        t.nusiz[i] = u8(r.nusiz(i));
        t.first_hidden[i] = (r.field & HIDDEN << i) != 0;
        t.refp[i] = (r.motion & REFLECTS << i) != 0;
        t.enam[i] = (r.motion & MISSILE << i) != 0;
        t.resmp[i] = (r.motion & LOCKED << i) != 0;
    }
    for (u32 i = 0; i < 3; i++) t.vdel[i] = (r.motion & DELAYED << i) != 0;
    t.enabl = (r.motion & BALL) != 0, t.enabl_old = (r.motion & OLD_BALL) != 0;
    t.ctrlpf = u8(r.ctrlpf()), t.pos[BL] = u8(r.place(BL));
    t.pf = r.field & 0xFFFFF;
    t.right_reflected = (r.field & REFLECTED) != 0, t.hmove_blank = (r.field & BLANKS) != 0;
    t.stars = u8(r.stars()), t.star_form = u8(r.form());
    t.vblank = u8(r.blank), t.colour_loss = (r.blank & LOSES_COLOUR) != 0;
    t.hmove_clock = r.hmove_clock;
}

enum WriteKind : u8 { STORES, FIELD, SHAPE, CONTROL, STARTS_STARS, CLEARS_MOTIONS, CLEARS_COLLISIONS, UNLOCKS, RESETS, MOVES };
enum Word : u8 { NO_WORD, SHAPES, COLOURS, MODES, FIELDS, MOTIONS, BLANK };

// The effect of a write to a TIA register. The value is rotated left, and its bits in `mask` replace those of the word
// number `word` of Registers. The bits `clears` of the word `field` are cleared.
struct WriteEntry {
    u32 mask, clears;
    u8 word, rotation, delay, objects;  // `objects` is the set of objects that the write may change.
    WriteKind kind;
};

struct WriteTable {
    WriteEntry of[64];
};
HD constexpr WriteTable make_write_table() {
    WriteTable table{};
    // Fills in the entry of `reg`: the value's bits from `from` on replace the word's bits from `to` on.
    const auto stores = [&table](u32 reg, Word word, u32 from, u32 to, u32 bits, u32 objects, u32 delay = 0) {
        table.of[reg] = WriteEntry{((1u << bits) - 1) << to, 0, word, u8((to - from) & 31), u8(delay), u8(objects), STORES};
    };
    stores(VBLANK, BLANK, 0, 0, 8, 63, 1);
    stores(CTRLPF, MODES, 0, 16, 8, BIT_BL | BIT_PF);
    stores(PF0, FIELDS, 4, 0, 4, BIT_PF);
    stores(PF1, FIELDS, 0, 4, 8, BIT_PF);
    stores(PF2, FIELDS, 0, 12, 8, BIT_PF);
    stores(ENABL, MOTIONS, 1, 24, 1, BIT_BL);
    stores(HMBL, MOTIONS, 4, 16, 4, 0);
    stores(VDELBL, MOTIONS, 0, 28, 1, BIT_BL);
    stores(HMCLR, MOTIONS, 0, 0, 20, 0);
    table.of[CTRLPF].kind = CONTROL;
    table.of[HMCLR].kind = CLEARS_MOTIONS;
    for (u32 reg = PF0; reg <= PF2; reg++) table.of[reg].kind = FIELD;
    for (u32 i = 0; i < 4; i++) {
        stores(COLUP0 + i, COLOURS, 0, 8 * i, 8, 0);
        table.of[COLUP0 + i].mask &= ~(1u << (8 * i));
        stores(HMP0 + i, MOTIONS, 4, 4 * i, 4, 0);
    }
    for (u32 i = 0; i < 2; i++) {
        const u32 player = BIT_P0 << i, missile = BIT_M0 << i;
        stores(NUSIZ0 + i, MODES, 0, 8 * i, 8, player | missile, 8);
        stores(REFP0 + i, MOTIONS, 3, 20 + i, 1, player, 1);
        stores(GRP0 + i, SHAPES, 0, 8 * i, 8, i ? BIT_P0 | BIT_P1 | BIT_BL : BIT_P0 | BIT_P1, 1);
        stores(ENAM0 + i, MOTIONS, 1, 22 + i, 1, missile);
        stores(VDELP0 + i, MOTIONS, 0, 26 + i, 1, player);
        stores(RESMP0 + i, MOTIONS, 1, 29 + i, 1, missile);
        table.of[NUSIZ0 + i].clears = HIDDEN << i;
        table.of[GRP0 + i].kind = SHAPE;
        table.of[RESMP0 + i].kind = UNLOCKS;
        table.of[RESM0 + i].delay = 8;
    }
    for (u32 object = P0; object <= BL; object++) {
        table.of[RESP0 + object].objects = u8(1u << object);
        table.of[RESP0 + object].kind = RESETS;
    }
    table.of[NUSIZ0].clears |= ALL_FORMS;
    table.of[RESM0].clears = ALL_FORMS;
    table.of[HMM0].objects = BIT_M0;
    table.of[HMM0].kind = STARTS_STARS;
    table.of[HMOVE].objects = BIT_P0 | BIT_P1 | BIT_M0 | BIT_M1 | BIT_BL;
    table.of[HMOVE].clears = ALL_HIDDEN | ALL_STARS | ALL_FORMS;
    table.of[HMOVE].kind = MOVES;
    table.of[CXCLR].kind = CLEARS_COLLISIONS;
    return table;
}
HD const WriteEntry& write_entry(u32 reg) {
    static constexpr WriteTable table = make_write_table();
    return table.of[reg];
}

// The result of a register write: the registers `next`, which apply from the clock `until` on.
struct Written {
    Registers next;
    i32 until;
    u32 objects;
    WriteKind kind;
    bool blanks;  // An HMOVE blanks the next displayed line.
};

HD void put_bits(u32& word, bool wanted, u32 mask, u32 bits) {
    const u32 changes = wanted ? mask : 0;
    word = (word & ~changes) | (bits & changes);
}
HD void put_place(Registers& r, u32 object, u32 x) {
    if (object == BL) r.modes = (r.modes & 0xFFFFFF) | x << 24;
    else r.places = (r.places & ~(255u << (8 * object))) | x << (8 * object);
}

// Applies writes that change positions of objects, of the kinds MOVES, RESETS and UNLOCKS.
HD void write_places(Written& w, const Registers& r, u32 reg, u32 value, i32 clock, i32 at) {
    Registers& next = w.next;
    if (w.kind == MOVES) {
        const i8* const motions = hmove_motions(at / 3);
        for (u32 object = P0; object <= BL; object++)
            put_place(next, object, u32(wrap(i32(r.place(object)) - motions[r.motion >> (4 * object) & 15])));
        w.blanks = at <= 3 * 20 + 2 || at >= 3 * 75;
        if (w.blanks) next.field |= BLANKS;
        next.hmove_clock = clock;
    } else if (w.kind == UNLOCKS) {
        const u32 i = reg - RESMP0;
        if (r.motion & LOCKED << i && !(value & 2))
            put_place(next, M0 + i, locked_missile_position(u8(r.place(i)), u8(r.nusiz(i))));
    } else if (reg <= RESP1) {
        const u32 i = reg - RESP0;
        const PlayerReset reset = player_reset(r.nusiz(i), i32(r.place(i)), at);
        w.until = clock + reset.delay;
        put_bits(next.field, true, HIDDEN << i, reset.hides && (reset.delay || at) ? HIDDEN << i : 0);
        put_place(next, i, reset_position(at, 5));
    } else {
        const u32 object = reg - RESP0;
        const i32 late = late_reset_position(object, at / 3, (clock - r.hmove_clock) / 3);
        put_place(next, object, late < 0 ? reset_position(at, 4) : u32(late));
    }
}

HD Written written(const Registers& r, FastWrite write, i32 frame_clock) {
    const u32 reg = write.reg(), given = write.value();
    const WriteEntry entry = write_entry(reg);
    const i32 clock = 3 * write.cycle(), at = i32(u32(clock - frame_clock) % LINE_CLOCKS);
    const u32 value = reg == PF1 ? bit_tables().reversed[given] : entry.kind == CLEARS_MOTIONS ? 0 : given;
    const u32 bits = value << entry.rotation | value >> (-u32(entry.rotation) & 31);
    Written w{r, clock + (entry.kind == FIELD ? write_delay(PF0, at) : entry.delay), entry.objects, entry.kind, false};
    Registers& next = w.next;
    put_bits(next.shapes, entry.word == SHAPES, entry.mask, bits);
    put_bits(next.colours, entry.word == COLOURS, entry.mask, bits);
    put_bits(next.modes, entry.word == MODES, entry.mask, bits);
    put_bits(next.field, entry.word == FIELDS, entry.mask, bits);
    put_bits(next.motion, entry.word == MOTIONS, entry.mask, bits);
    put_bits(next.blank, entry.word == BLANK, entry.mask, bits);
    next.field &= ~entry.clears;
    // A write of one player's shape copies the other player's current shape to the other player's old shape. A write to
    // GRP1 also copies the ball's current state to the ball's old state.
    put_bits(next.shapes, reg == GRP0, 0xFF000000, r.shapes << 16);
    put_bits(next.shapes, reg == GRP1, 0x00FF0000, r.shapes << 16);
    put_bits(next.motion, reg == GRP1, OLD_BALL, r.motion << 1);
    put_bits(next.field, entry.kind == CONTROL && at < HBLANK_CLOCKS + 79, REFLECTED, given << 20);
    const bool stars = (r.motion >> 8 & 15) == 7 && given >> 4 == 6 && clock - r.hmove_clock == 3 * 21;
    put_bits(next.field, entry.kind == STARTS_STARS && stars, ALL_STARS, STARS);
    if (entry.kind >= UNLOCKS) write_places(w, r, reg, given, clock, at);
    return w;
}

// Returns whether a change of registers may change which pixels the objects cover.
HD bool differs(const Registers& a, const Registers& b) {
    constexpr u32 OLD = ALL_MOTIONS | BALL | OLD_BALL;
    return ((a.shapes ^ b.shapes) & (a.visible_shapes() | b.visible_shapes())) | (a.places ^ b.places) | (a.modes ^ b.modes) |
           ((a.field ^ b.field) & ~u32(BLANKS)) | ((a.motion ^ b.motion) & ~OLD) | ((a.blank ^ b.blank) & 2) |
           u32(a.ball() != b.ball());
}

// Ends the blank of an HMOVE that was written before cycle 75 of the line that begins at the clock `line_start`.
HD void end_blank(Registers& r, i32 line_start) {
    if (r.hmove_clock < line_start + 3 * 75) r.field &= ~u32(BLANKS);
}
// Updates the registers at the end of a displayed line, as end_line of tia_settle.h.
HD void end_line(Registers& r, i32 line_start) {
    end_blank(r, line_start);
    r.field &= ~ALL_HIDDEN;
    put_bits(r.field, true, REFLECTED, r.ctrlpf() << 20);
    if (!r.stars()) return;
    const u32 stars = (r.stars() & 3) + 1, form = stars == 2 ? 1 : stars == 3 ? 2 : 0;
    put_bits(r.field, true, ALL_STARS | ALL_FORMS, stars * STARS | form * FORM);
    put_place(r, M0, u32(wrap(i32(r.place(M0)) - star_motion(u8(stars)))));
}

// The pixel masks of the objects on a line, in the order of TiaObject.
struct ObjectMasks {
    Mask of[6];
};
HD ObjectMasks object_masks(const Registers& r) {
    Tia t;
    store(r, t);
    return ObjectMasks{{placed(player_pixels(t, 0)), placed(player_pixels(t, 1)), placed(missile_pixels(t, 0)),
                        placed(missile_pixels(t, 1)), placed(ball_pixels(t)), playfield_mask(t)}};
}

}  // namespace accel
