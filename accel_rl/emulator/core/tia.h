// The TIA, the console's graphics chip: its registers, and the log of writes to the registers.
// | one scan line, 228 colour clocks = 76 CPU cycles
// | 0                68                      148                     228
// | |  HBLANK         | left half: PF0 PF1 PF2 | right half, again or reflected |
//
// | write log:   clock of the write, register, value   ->   tia_settle.h replays it up to a given clock
//
// A write to the TIA only enters the log. Collisions, positions of objects and the picture are computed only when they
// are needed. The logged writes are applied ("settled") when collisions are read, at the end of a frame, or when the
// log is full. Clocks are colour clocks since the start of the frame's first CPU cycle. Scan line 0 begins at the clock
// `frame_clock`, which is 0 or negative.
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

// `pos` and `hm` list the objects in the order of TiaObject. In a set of objects, bit i stands for the object number i,
// and bit 5 for the playfield.
enum TiaObject : u8 { P0, P1, M0, M1, BL, PF };

constexpr i32 LINE_CLOCKS = 228;
constexpr i32 HBLANK_CLOCKS = 68;
constexpr i32 WIDTH = 160;
constexpr i32 NEVER = 0x7FFFFFFF;

struct Tia {
    i32 frame_clock;  // Line 0 of the picture begins at frame_clock, which is 0 or less.
    i32 settled;      // All writes before the clock `settled` have been applied.
    i32 vsync_clock;  // The frame may end after vsync_clock, which is NEVER while VSYNC is off.
    i32 hmove_clock;  // hmove_clock is the clock of the last write to HMOVE.
    i32 dump_cycle;   // dump_cycle is the cycle at which VBLANK last let the paddles' capacitors charge.
    u32 collisions;   // pairs_of in tia_settle.h gives each pair of objects a bit.
    u32 pf;           // The playfield has 20 bits, of which bit 0 is leftmost.
    u8 colour[4];     // The TIA has colours of both players, playfield and background.
    u8 nusiz[2];
    u8 ctrlpf;
    u8 right_reflected;  // The playfield's reflection is latched at the end of a line, or before its right half.
    u8 refp[2];
    u8 grp[2], grp_old[2];
    u8 enam[2];
    u8 enabl, enabl_old;
    u8 hm[5];    // `hm` (0-15) are the amounts by which HMOVE moves the five objects.
    u8 vdel[3];  // Players and ball are delayed if VDELP0, VDELP1 or VDELBL is set.
    u8 resmp[2];
    u8 pos[5];           // `pos` (0-159) are the positions of the five objects.
    u8 first_hidden[2];  // If 1, the player was just reset, and its first copy is not visible on the line.
    u8 hmove_blank;      // If 1, the next displayed line starts with 8 black pixels.
    u8 vblank;
    u8 dumped;       // If 1, bit 7 of VBLANK discharges the paddles' capacitors.
    u8 stars;        // If 1-4, missile 0 moves by itself at the end of each line (star_motion).
    u8 star_form;    // Missile 0 is drawn as set by NUSIZ0 (0), with two pixels or more (1), or hidden (2).
    u8 colour_loss;  // If 1, PAL shows grays, because the last frame had an odd number of lines.
};

struct TiaWrite {
    i32 clock;
    u8 reg, value;
};

// A frame has about a thousand TIA writes. If the log is full, its writes are applied before the frame ends, so SIZE
// affects only speed.
struct TiaLog {
    static constexpr u32 SIZE = 256;
    u32 count;
    TiaWrite writes[SIZE];
};

// The memory for a drawn picture, and which scan lines are displayed.
struct Picture {
    u8* pixels;  // `pixels` are colour bytes [height, 160], or null if only collisions are computed.
    i32 first_line;
    i32 height;
    bool hmove_blanks;  // HMOVE blanks are off for the few games that would display them wrongly.
};

// Return the number of clocks since the start of the scan line, and the number of the scan line.
HD i32 line_clock(const Tia& t, i32 clock) { return i32(u32(clock - t.frame_clock) % LINE_CLOCKS); }
HD i32 line_number(const Tia& t, i32 clock) { return i32(u32(clock - t.frame_clock) / LINE_CLOCKS); }

// Returns the number of clocks until a write to a register takes effect. `at` is the clock of the write, counted from
// the start of the frame or of any scan line.
HD i32 write_delay(u32 reg, i32 at) {
    switch (reg) {
            // clang-format off
        case VBLANK: case REFP0: case REFP1: case GRP0: case GRP1: return 1;
        case NUSIZ0: case NUSIZ1: return 8;
        case PF0: case PF1: case PF2: return i32(0x3254u >> (4 * (at / 3 & 3)) & 15);
        default: return 0;
            // clang-format on
    }
}

}  // namespace accel
