// The RIOT 6532 has a timer and two ports. The RIOT's 128 bytes of RAM are in State.
// | address   A4 A2 A1 A0        read            write
// | $280          0  0  0        SWCHA           -
// | $281          0  0  1        SWACNT          SWACNT
// | $282          0  1  0        SWCHB           -
// | $284          1  -  0        INTIM
// | $285          1  -  1        INSTAT
// | $294       1  1  0  0                        TIM1T, TIM8T, TIM64T, T1024T by A1 A0
//
// The value of the timer INTIM after 3 was written to TIM8T (one step per 8 cycles), by CPU cycles since the write:
// | cycle  1 ........ 8 9 ....... 16 17 ...... 24 25 26 27 28
// | INTIM  2            1            0            FF FE FD FC     after expiry it decreases every cycle ...
//
// The first read of INTIM after the cycle of the timer's expiry makes the timer decrease every 8 cycles again, from the
// value that was read. `read_offset` is the number of cycles from the expiry to the first read.
#pragma once
#include "types.h"

namespace accel {

struct Riot {
    i32 set_cycle;    // The game wrote the timer at cycle `set_cycle` of the frame.
    i32 read_offset;  // The first read of INTIM after expiry was read_offset cycles after expiry; 0 means no read.
    u8 value;         // The field `value` is the number that the game wrote to the timer.
    u8 shift;         // The timer divides the CPU's cycles by 2^shift.
    u8 swacnt;        // The direction of port A is stored and read back, but not applied to the inputs.
    u8 swcha, swchb;  // SWCHA has the pins of the joysticks, and SWCHB the pins of the console switches.
};

HD void riot_reset(Riot& r, u8 timer) {
    r.set_cycle = 0;
    r.read_offset = 0;
    r.value = timer;
    r.shift = 6;
    r.swacnt = 0;
}

HD u8 riot_read(Riot& r, u32 address, i32 cycle) {
    switch (address & 7) {
        case 0: return r.swcha;
        case 1: return r.swacnt;
        case 2: return r.swchb;
        case 3: return 0;
    }
    const u32 elapsed = u32(cycle) - u32(r.set_cycle);  // A timer that is never set wraps after days.
    const i32 counted = i32(r.value - 1u - u32(i32(elapsed - 1) >> r.shift));
    if (address & 1) return counted < 0 && r.read_offset == 0 ? 0x80 : 0;
    if (counted >= 0) return u8(counted);
    const u32 expiry = (u32(r.value) << r.shift) + 1;
    if (r.read_offset == 0) r.read_offset = i32(elapsed - expiry);
    return u8(u32(counted) - u32(r.read_offset));
}

// Returns how many reads of INTIM, one every `period` cycles after the read at `cycle`, return a value other than 0.
HD i32 riot_reads_before_zero(const Riot& r, u8 read, i32 cycle, i32 period) {
    const i32 elapsed = cycle - r.set_cycle;
    if (!read || r.read_offset || elapsed < 1 || elapsed > i32(u32(r.value) << r.shift)) return 0;
    return (i32((r.value - 1u) << r.shift) - elapsed) / period;
}

HD void riot_write(Riot& r, u32 address, u8 value, i32 cycle) {
    if ((address & 0x14) == 0x14) {
        r.set_cycle = cycle;
        r.read_offset = 0;
        r.value = value;
        r.shift = u8(0xA630u >> (4 * (address & 3)) & 15);
    } else if ((address & 7) == 1) {
        r.swacnt = value;
    }
}

}  // namespace accel
