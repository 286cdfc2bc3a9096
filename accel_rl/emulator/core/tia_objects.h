// The positions, copies and motion of the objects on a scan line.
// | NUSIZ & 7    copies at offsets        width of a player's pixel
// | 0            0                        1
// | 1            0 16                     1
// | 2            0 32                     1
// | 3            0 16 32                  1
// | 4            0 64                     1
// | 5            0                        2, starting one pixel later
// | 6            0 32 64                  1
// | 7            0                        4, starting one pixel later
//
// A write to HMOVE at CPU cycle c of a scan line first moves every object right by 8 pixels, because the line begins
// with a blank of 8 pixels. After the move to the right, an object moves left by one pixel per motion pulse, every 4
// clocks. A late HMOVE (55 <= c < 75) moves objects only to the left, and an HMOVE with 20 < c < 55 moves no object.
#pragma once
#include "tia.h"

namespace accel {

// Returns the copies of an object for a value of NUSIZ: bit i is set if a copy is 16 * i pixels from the first copy.
HD u32 copies(u8 nusiz) {
    static constexpr u8 at[8] = {1, 3, 5, 7, 17, 1, 21, 1};
    return at[nusiz & 7];
}

HD u32 player_stretch(u8 nusiz) { return (nusiz & 7) == 5 ? 1 : (nusiz & 7) == 7 ? 2 : 0; }

HD i32 wrap(i32 x) { return x + (x >> 31 & WIDTH) - (x >= WIDTH ? WIDTH : 0); }

// Returns by how many pixels an HMOVE at CPU cycle `cycle` moves an object to the left, given the high nibble of its HM
// register. The motions at cycles 3 and 5-76 were measured; those at cycles 0-2 and 4 continue the pattern.
HD constexpr i32 motion_by(i32 cycle, i32 nibble) {
    const i32 pulses = nibble ^ 8;
    if (cycle <= 20 || cycle >= 75) {
        const i32 missed = cycle <= 3 || cycle >= 75 ? 0 : (3 * cycle - 7) / 4;
        const i32 most = 15 - missed;
        return (pulses < most ? pulses : most) - 8;
    }
    if (cycle < 55) return 0;
    const i32 missed = 14 - (3 * (cycle - 55) + 2) / 4;
    return pulses > missed ? pulses - missed : 0;
}

struct MotionTable {
    i8 pixels[76][16];
};
HD constexpr MotionTable make_motion_table() {
    MotionTable t{};
    for (i32 cycle = 0; cycle < 76; cycle++)
        for (i32 nibble = 0; nibble < 16; nibble++) t.pixels[cycle][nibble] = i8(motion_by(cycle, nibble));
    return t;
}
HD const i8* hmove_motions(i32 cycle) {
    static constexpr MotionTable table = make_motion_table();
    return table.pixels[cycle];
}

// Returns the position (pixel) of an object whose position is reset at the clock `at` of a scan line. `latency` is 5
// clocks for players, and 4 for missiles and the ball.
HD u8 reset_position(i32 at, i32 latency) {
    if (at < HBLANK_CLOCKS) return u8(latency - 2);
    return u8((at - HBLANK_CLOCKS + latency) % WIDTH);
}

// If an object's position is reset during the motion pulses of an HMOVE, the new position may be unusual. Measurements
// with HMOVE at CPU cycles 3-6 and 8-39 of a scan line found five unusual positions:
// | object   HMOVE at   reset at cycle   position
// | ball     3          9                5
// | ball     3          10               6
// | ball     5          23               10
// | missile0 3          23               8
// | missile1 3          6                3
HD i32 late_reset_position(u32 object, i32 cycle, i32 since_hmove) {
    if (object == BL && cycle == 9 && since_hmove == 6) return 5;
    if (object == BL && cycle == 10 && since_hmove == 7) return 6;
    if (object == BL && cycle == 23 && since_hmove == 18) return 10;
    if (object == M1 && cycle == 6 && since_hmove == 3) return 3;
    if (object == M0 && cycle == 23 && since_hmove == 20) return 8;
    return -1;
}

// If HMM0 changes from 7 to 6 in the 21st cycle after HMOVE, missile 0 draws stars. Until the next HMOVE, a missile 0
// that draws stars moves at the end of each scan line, in a cycle of four lines. Missile 0 is wide on one of the four
// lines, and hidden on another.
// | line after the write   1       2       3    4
// | pixels to the left     33      0       17   18
// | missile 0              wide    hidden
HD bool starts_stars(const Tia& t, u8 value, i32 clock) {
    return t.hm[M0] == 7 && value >> 4 == 6 && clock - t.hmove_clock == 3 * 21;
}
HD i32 star_motion(u8 stars) { return stars == 1 ? 18 : stars == 2 ? 33 : stars == 3 ? 0 : 17; }

HD bool missile_shows(const Tia& t, u32 i) { return t.enam[i] && !t.resmp[i] && !(i == 0 && t.star_form == 2); }
HD i32 missile_width(const Tia& t, u32 i) { return 1 << ((t.nusiz[i] >> 4 & 3) | (i == 0 && t.star_form == 1 ? 1 : 0)); }

// Returns the middle of a player, which is the position of the player's missile while RESMP is set.
HD u8 locked_missile_position(u8 player, u8 nusiz) {
    static constexpr u8 middle[3] = {4, 8, 16};
    return u8((player + middle[player_stretch(nusiz)]) % WIDTH);
}

}  // namespace accel
