// The 6507 is the console's version of the 6502, with 13 address lines and no interrupts.
// | one instruction:   fetch opcode -> clock += its base cycles -> operands, reads and writes, all at that time
// |                    -> a taken branch, or an index that crosses a page, adds its cycles before the access
//
// | P:  N V 1 B D I Z C      stored separately, as source values: `n` bit 7, `z` zero or not, `c` and `v` 0 or 1
//
// Undocumented opcodes, which no supported game executes, are no-operations of one byte and two cycles.
#pragma once
#include "types.h"

namespace accel {

struct Cpu {
    u16 pc;
    u8 a, x, y, sp;
    u8 n, z, c, v, d, i;  // The negative flag is bit 7 of n, and the zero flag is z == 0.
};

HD u8 cpu_flags(const Cpu& p, bool b) {
    return u8((p.n & 0x80) | p.v << 6 | 0x20 | (b ? 0x10 : 0) | p.d << 3 | p.i << 2 | (p.z == 0 ? 2 : 0) | p.c);
}

HD void cpu_set_flags(Cpu& p, u8 flags) {
    p.n = flags & 0x80;
    p.v = flags >> 6 & 1;
    p.d = flags >> 3 & 1;
    p.i = flags >> 2 & 1;
    p.z = flags & 2 ? 0 : 1;
    p.c = flags & 1;
}

// As in ale-py, decimal mode reads digits as 10 * high + low, even if they are no decimal digits. A decimal sum wraps
// at 256 before it is converted back to digits. A decimal difference below -100 leaves the accumulator unchanged.
HD i32 decimal_value(u8 m) { return 10 * (m >> 4) + (m & 15); }
HD u8 decimal_digits(i32 value) { return u8((value % 100 / 10) << 4 | value % 10); }

HD void cpu_adc(Cpu& p, u8 m) {
    u8 result;
    if (p.d) {
        const i32 sum = decimal_value(p.a) + decimal_value(m) + p.c;
        p.c = sum > 99;
        result = decimal_digits(sum & 255);
    } else {
        const u32 sum = p.a + m + p.c;
        p.c = sum > 255;
        result = u8(sum);
    }
    p.v = ((p.a ^ result) & (m ^ result)) >> 7;
    p.a = p.n = p.z = result;
}

HD void cpu_sbc(Cpu& p, u8 m) {
    const i32 borrow = 1 - p.c;
    p.c = p.a - m - borrow >= 0;
    u8 result;
    if (p.d) {
        const i32 difference = decimal_value(p.a) - decimal_value(m) - borrow;
        const i32 wrapped = difference < 0 ? difference + 100 : difference;
        result = wrapped < 0 ? u8(decimal_value(u8(wrapped))) : decimal_digits(wrapped);
        p.v = ((p.a ^ result) & (m ^ result)) >> 7;
    } else {
        result = u8(p.a - m - borrow);
        p.v = ((p.a ^ m) & (p.a ^ result)) >> 7;
    }
    p.a = p.n = p.z = result;
}

}  // namespace accel
