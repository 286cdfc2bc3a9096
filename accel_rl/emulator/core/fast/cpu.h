// The interpreter of the decoded ROM. The 6507's registers are local variables, and the code of each instruction jumps
// to the code of the next.
// | at      the decoded instruction          pc = its offset in the ROM - zero; `zero` changes with jumps alone
// | nz      of the last result               negative: nz & $8080     zero: (nz & $FF) == 0     (BIT sets them apart)
// | v       overflow in bit 7                c: 0 or 1
//
// The plain interpreter runs instructions that are marked SLOW on the same state. If a frame is longer than any regular
// frame, run_fast gives up, and the caller runs the frame again with the plain core.
//
// If TRANSLATED is defined, it is the path of a file that translation.h has written, and run_fast also contains the
// translated code of one ROM. The interpreter runs instructions that are not translated, and jumps into the translated
// code at an `entry`.
#pragma once
#include "bodies.h"

namespace accel {
// clang-format off

#if defined(__GNUC__) && !defined(__CUDACC__)
#define FAST_THREADED 1
#endif

// NEXT(n) continues n bytes later, and FOLLOW(), after a jump, at the decoded instruction `at`.
#ifndef FAST_THREADED
#define NEXT(n) { at += n; goto next; }
#define FOLLOW() NEXT(0)
#define EXECUTE(instruction) { op = instruction; goto execute; }
#elif defined(TRANSLATED)
#define NEXT(n) { at += n; FOLLOW() }
#define FOLLOW() { if (entry[at - ops]) goto *entry[at - ops]; op = *at; goto *label[op & 0xFFFF]; }
#else
#define NEXT(n) { op = at[n]; at += n; goto *label[op & 0xFFFF]; }
#define FOLLOW() NEXT(0)
#endif
#ifdef FAST_THREADED
#define EXECUTE(instruction) { op = instruction; goto *label[op & 0xFFFF]; }
#endif
#define ARG (op >> 16)
#define HERE u32(at - ops)
#define TAKE { at += i32(op) >> 18; NEXT(0) }
#define JUMP(to, carried) GO(to, carried)
#define SLOWLY goto slow;
#define END_FRAME(n) { at += n; goto over; }
#define WRITE_TIA(reg, value) k.tia.write(reg, u8(value), 3 * cycle);
// Jumps to a 16-bit address. The plain interpreter runs code outside the ROM and the RAM, which may be read from an
// undriven bus.
#define GO(to, carried) { \
    address = (to); \
    if (cycle > give_up) goto gave_up; \
    offset = k.page[address >> 8 & 63]; \
    if (offset < 0) { \
        if (in_ram(address)) offset = i32(k.rom.size); \
        else if (!(address & 0x1000)) { s.bus = u8(carried); s.cpu.pc = u16(address); goto slow_at_pc; } \
        else offset = i32(k.rom_offset(address) - (address & 0xFF)); \
    } \
    at = ops + offset + (address & 0xFF); \
    zero = u32(offset) - (address & 0xFF00); \
    FOLLOW() }
#define LOAD_CPU() { \
    a = s.cpu.a; x = s.cpu.x; y = s.cpu.y; sp = s.cpu.sp; c = s.cpu.c; d = s.cpu.d; v = s.cpu.v << 7; cycle = s.cycle; \
    nz = (s.cpu.n & 0x80) << 8 | (s.cpu.z ? 1 : 0); }
#define STORE_CPU() { \
    s.cpu.a = u8(a); s.cpu.x = u8(x); s.cpu.y = u8(y); s.cpu.sp = u8(sp); s.cpu.c = u8(c); s.cpu.d = u8(d); s.cpu.v = (v & 0x80) >> 7; \
    s.cpu.n = nz & 0x8080 ? 0x80 : 0; s.cpu.z = nz & 0xFF ? 1 : 0; s.cycle = cycle; }

HD FastEnd run_fast(FastConsole& k) {
    State& s = k.s;
    const u32 *const ops = k.ops, *at;
    const u8* const rom = k.rom.bytes;
    u8* const ram = s.ram;
    const u32 low = k.low, span = k.high - k.low;
    const i32 deadline = k.deadline, give_up = k.give_up;
    u32 zero = 0, a, x, y, sp, nz, c, v, d, op, m, address;
    i32 cycle, offset, line = -k.phase;  // WSYNC last waited for the scan line that begins at cycle `line`.
#ifdef FAST_THREADED
    static const void* const label[FAST_OP_COUNT] = {
#define LABEL(body, fast, name) &&L_##fast,
        FAST_OPS(LABEL)
#undef LABEL
    };
#define INSTRUCTION(body, fast, name) L_##fast: { body(name) }
#ifdef TRANSLATED
    static const void* const entry[MOST_ROM + RAM_OPS] = {
#define ENTRIES
#include TRANSLATED
#undef ENTRIES
    };
#endif
#else
#define INSTRUCTION(body, fast, name) case FAST_##fast: { body(name) }
#endif

    LOAD_CPU()
    GO(s.cpu.pc, s.bus)
#ifdef FAST_THREADED
    FAST_OPS(INSTRUCTION)
#ifdef TRANSLATED
#include "translated.h"
#endif
#else
next:
    op = *at;
execute:
    switch (op & 0xFFFF) {
        FAST_OPS(INSTRUCTION)
        default: return GAVE_UP;
    }
#endif

slow:
    s.cpu.pc = u16(u32(at - ops) - zero);
slow_at_pc:
    STORE_CPU()
    do {
        if (s.cycle > give_up || k.writes_twice()) return GAVE_UP;
        k.step_slow();
        if (k.frame_over) return FRAME_OVER;
    } while (!(s.cpu.pc & 0x1000) && !in_ram(s.cpu.pc));
    k.map();
    LOAD_CPU()
    GO(s.cpu.pc, s.bus)

over:
    s.cpu.pc = u16(u32(at - ops) - zero);
    STORE_CPU()
    return FRAME_OVER;

gave_up:
    return GAVE_UP;
}
#undef ARG
#undef HERE
#undef TAKE
#undef SLOWLY
#undef EXECUTE
// clang-format on

}  // namespace accel
