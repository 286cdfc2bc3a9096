// TIA: the registers of the picture chip, and the log of writes to them.
//
//     one scan line, 228 colour clocks = 76 CPU cycles
//     0                68                      148                     228
//     |  HBLANK         | left half: PF0 PF1 PF2 | right half, again or reflected |
//
//     write log:   clock of the write, register, value   ->   tia_settle.h replays it up to a clock that is asked for
//
// A write does nothing but enter the log; what depends on the beam (collisions, positions, the picture) is settled when
// somebody looks: at a collision read, at the end of a frame, or when the log is full. Clocks are colour clocks since the
// start of the frame's first cycle; line 0 begins at `frame_clock`, at or before 0.
#pragma once
#include "types.h"

namespace accel {

enum TiaRegister : u8 {
    // clang-format off
    VSYNC, VBLANK, WSYNC, RSYNC, NUSIZ0, NUSIZ1, COLUP0, COLUP1, COLUPF, COLUBK, CTRLPF, REFP0, REFP1, PF0, PF1, PF2,
    RESP0, RESP1, RESM0, RESM1, RESBL, AUDC0, AUDC1, AUDF0, AUDF1, AUDV0, AUDV1, GRP0, GRP1, ENAM0, ENAM1, ENABL,
    HMP0, HMP1, HMM0, HMM1, HMBL, VDELP0, VDELP1, VDELBL, RESMP0, RESMP1, HMOVE, HMCLR, CXCLR, TIA_REGISTERS
    // clang-format on
};

// Objects, in the order of positions and motions; as bits of a pixel: 1 << object, and the playfield is bit 5.
enum TiaObject : u8 { P0, P1, M0, M1, BL, PF };

constexpr i32 LINE_CLOCKS = 228;
constexpr i32 HBLANK_CLOCKS = 68;
constexpr i32 WIDTH = 160;
constexpr i32 NEVER = 0x7FFFFFFF;

struct Tia {
    i32 frame_clock;    // clock of line 0, pixel -68; 0 or less
    i32 settled;        // everything before this clock has been settled
    i32 vsync_clock;    // the frame may end from here on; NEVER while VSYNC is off
    i32 hmove_clock;    // of the last HMOVE
    i32 dump_cycle;     // when VBLANK last let the paddles' capacitors charge
    u32 collisions;     // bit (8 * object - ...) see tia_settle.h: pair_bit
    u32 pf;             // 20 bits, bit 0 leftmost
    u8 colour[4];       // P0, P1, PF, BK
    u8 nusiz[2];
    u8 ctrlpf;
    u8 right_reflected;  // latched from ctrlpf at a line's end, or before the right half
    u8 refp[2];
    u8 grp[2], grp_old[2];
    u8 enam[2];
    u8 enabl, enabl_old;
    u8 hm[5];            // motions, high nibble in 0-15
    u8 vdel[3];          // P0, P1, BL
    u8 resmp[2];
    u8 pos[5];           // 0-159, by TiaObject
    u8 first_hidden[2];  // P0, P1: just reset, it does not show its first copy on this line
    u8 hmove_blank;      // the next displayed line starts with 8 black pixels
    u8 vblank;
    u8 dumped;           // VBLANK bit 7: the capacitors are held empty
    u8 stars;            // 1-4: missile 0 moves by itself at each line's end, see star_motion; 0: it does not
    u8 star_form;        // of missile 0 on this line: 0 as NUSIZ0 has it, 1 two pixels or more, 2 hidden
    u8 colour_loss;      // 1: a PAL set shows grays, the bytes are odd, because the frame before had an odd number of lines
};

struct TiaWrite {
    i32 clock;
    u8 reg, value;
};

// A frame makes about a thousand writes; the log is settled when full, so its length is a matter of speed only.
struct TiaLog {
    static constexpr u32 SIZE = 256;
    u32 count;
    TiaWrite writes[SIZE];
};

// What the drawing needs and the registers do not hold: where the picture goes, and which lines are shown.
struct Picture {
    u8* pixels;        // height x 160 colour bytes; null: collisions only
    i32 first_line;    // first displayed scan line
    i32 height;        // displayed scan lines
    bool hmove_blanks;  // off for the few games that look wrong with them
};

// Of a clock of this frame: none is before its first line.
HD i32 line_clock(const Tia& t, i32 clock) { return i32(u32(clock - t.frame_clock) % LINE_CLOCKS); }
HD i32 line_number(const Tia& t, i32 clock) { return i32(u32(clock - t.frame_clock) / LINE_CLOCKS); }

}  // namespace accel
