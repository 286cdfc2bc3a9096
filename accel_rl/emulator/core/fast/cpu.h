// Registers are local variables while the decoded ROM is executed, and each instruction jumps to the next.
// | at      the decoded instruction          pc = its offset in the ROM - zero; `zero` changes with jumps alone
// | nz      of the last result               negative: nz & $8080     zero: (nz & $FF) == 0     (BIT sets them apart)
// | v       overflow in bit 7                c: 0 or 1
//
// If an instruction is `slow`, the plain interpreter runs the instruction on the same state.
// After an instruction of the plain interpreter, the fast core continues with the next instruction.
// The last bus value is not stored between instructions, because each instruction's read follows its fetch.
// A frame longer than any regular frame is abandoned, and the caller runs the frame again with the plain core.
#pragma once
#include "console.h"

namespace accel {
// clang-format off

#if defined(__GNUC__) && !defined(__CUDACC__)
#define FAST_THREADED 1
#endif

enum FastEnd : u8 { FRAME_OVER, GAVE_UP };

// Advances the program counter by n bytes of ROM, and jumps to the next instruction.
#ifdef FAST_THREADED
#define NEXT(n) { op = at[n]; at += n; goto *label[op & 0xFFFF]; }
#define OP(name) L_##name:
#else
#define NEXT(n) { at += n; goto next; }
#define OP(name) case FAST_##name:
#endif
#define ARG (op >> 16)
#define SIGNED_ARG (i32(op) >> 16)

HD u32 pointer_at(const u8* ram) {
    u16 word;
    copy_bytes(&word, ram, 2);
    return word;
}

HD FastEnd run_fast(FastConsole& k) {
    State& s = k.s;
    const u32 *const ops = k.ops, *at;
    const u8* const rom = k.rom.bytes;
    u8* const ram = s.ram;
    const u32 low = k.low, span = k.high - k.low;
    const i32 deadline = k.deadline, give_up = k.give_up, phase = k.phase;
    FastWrite* log = k.log.writes;
    u32 zero = 0, a, x, y, sp, nz, c, v, d, op, m, address;
    i32 cycle, offset, line = -phase;  // WSYNC last waited for the scan line that begins at cycle `line`.
#ifdef FAST_THREADED
    static const void* const label[FAST_OP_COUNT] = {
#define FAST_LABEL(n) &&L_##n,
        FAST_OPS(FAST_LABEL)
#undef FAST_LABEL
    };
#endif

#define LOAD_CPU() { \
    a = s.cpu.a; x = s.cpu.x; y = s.cpu.y; sp = s.cpu.sp; c = s.cpu.c; d = s.cpu.d; v = s.cpu.v << 7; cycle = s.cycle; \
    nz = (s.cpu.n & 0x80) << 8 | (s.cpu.z ? 1 : 0); log = k.log.writes + k.log.count; }
#define STORE_CPU() { \
    s.cpu.a = u8(a); s.cpu.x = u8(x); s.cpu.y = u8(y); s.cpu.sp = u8(sp); s.cpu.c = u8(c); s.cpu.d = u8(d); s.cpu.v = (v & 0x80) >> 7; \
    s.cpu.n = nz & 0x8080 ? 0x80 : 0; s.cpu.z = nz & 0xFF ? 1 : 0; s.cycle = cycle; k.log.count = u32(log - k.log.writes); }
#define PC() u16(u32(at - ops) - zero)
// Jumps to a 16-bit address.
// Outside the ROM the plain interpreter runs the program, which may read the last value on the bus.
#define GO(to, carried) { \
    address = (to); \
    if (cycle > give_up) goto gave_up; \
    offset = k.page[address >> 8 & 63]; \
    if (offset < 0) { \
        if (!(address & 0x1000)) { s.bus = u8(carried); s.cpu.pc = u16(address); goto slow_at_pc; } \
        offset = i32(k.rom_offset(address) - (address & 0xFF)); \
    } \
    at = ops + offset + (address & 0xFF); \
    zero = u32(offset) - (address & 0xFF00); \
    NEXT(0) }
#define BUS_READ(from, noise) { k.log.count = u32(log - k.log.writes); m = k.read(from, noise, cycle); log = k.log.writes + k.log.count; }
#define BUS_WRITE(to, value, n) { \
    k.log.count = u32(log - k.log.writes); cycle = k.write(to, u8(value), cycle); log = k.log.writes + k.log.count; \
    if (k.frame_over) { at += n; goto over; } NEXT(n) }
// Reads an indexed address of the ROM, the RAM or the bus.
#define READ_ANY(noise) \
    if (address & 0x1000) { \
        if ((address & 0xFFF) - low >= span) goto slow; \
        m = rom[k.rom_offset(address)]; \
    } else if ((address & 0x280) == 0x80) m = ram[address & 0x7F]; \
    else BUS_READ(address, noise)
#define WRITE_ANY(value, n) \
    if ((address & 0x1280) == 0x80) { ram[address & 0x7F] = u8(value); NEXT(n) } \
    if (address & 0x1000 && (address & 0xFFF) - low >= span) goto slow; \
    BUS_WRITE(address, value, n)
#define POINTER() pointer_at(ram + ARG)

#define READS(name, what) \
    OP(name##_IM) { cycle += 2; m = ARG; what; NEXT(2) } \
    OP(name##_RZ) { cycle += 3; m = ram[ARG]; what; NEXT(2) } \
    OP(name##_GZ) { cycle += 3; BUS_READ(ARG, ARG); what; NEXT(2) } \
    OP(name##_GA) { cycle += 4; BUS_READ(ARG, ARG >> 8); what; NEXT(3) }
#define READS_ZERO(name, mode, index, what) \
    OP(name##_##mode) { \
        address = (ARG + index) & 0xFF; cycle += 4; \
        if (address & 0x80) m = ram[address & 0x7F]; else BUS_READ(address, ARG); \
        what; NEXT(2) }
#define READS_TABLE(name, mode, index, what) \
    OP(name##_R##mode) { cycle += 4 + i32((((ARG & 0xFF) + index) >> 8)); m = rom[ARG + index]; what; NEXT(3) } \
    OP(name##_A##mode) { \
        address = (ARG + index) & 0xFFFF; offset = k.page[address >> 8 & 63]; \
        if (offset >= 0) { cycle += 4 + i32(((ARG & 0xFF) + index) >> 8); m = rom[u32(offset) + (address & 0xFF)]; what; NEXT(3) } \
        m = i32(((ARG ^ address) & 0xFF00) != 0); cycle += 4 + i32(m); \
        if (address & 0x1000 && (address & 0xFFF) - low >= span) { cycle -= 4 + i32(m); goto slow; } \
        READ_ANY(ARG >> 8) what; NEXT(3) }
#define READS_POINTER(name, what) \
    OP(name##_IY) { \
        m = POINTER(); address = (m + y) & 0xFFFF; offset = k.page[address >> 8 & 63]; \
        if (offset >= 0) { cycle += 5 + i32(((m & 0xFF) + y) >> 8); m = rom[u32(offset) + (address & 0xFF)]; what; NEXT(2) } \
        if (address & 0x1000 && (address & 0xFFF) - low >= span) goto slow; \
        cycle += 5 + ((m ^ address) & 0xFF00 ? 1 : 0); \
        READ_ANY(m >> 8) what; NEXT(2) }
#define ALU(name, what) \
    READS(name, what) READS_ZERO(name, ZX, x, what) READS_TABLE(name, X, x, what) READS_TABLE(name, Y, y, what) \
    READS_POINTER(name, what)
#define STORES(name, value) \
    OP(name##_RZ) { cycle += 3; ram[ARG] = u8(value); NEXT(2) } \
    OP(name##_TZ) { \
        cycle += 3; \
        if (k.log.last[ARG] != value) { k.log.last[ARG] = u16(value); *log++ = FastWrite::of(cycle, ARG, value); } \
        if (cycle >= deadline) { s.bus = u8(value); at += 2; goto over; } NEXT(2) } \
    OP(name##_TS) { \
        cycle += 3; \
        if (k.log.last[ARG] != value) { *log++ = FastWrite::of(cycle, ARG, value); k.log.keep(ARG, value); } \
        if (cycle >= deadline) { s.bus = u8(value); at += 2; goto over; } NEXT(2) } \
    OP(name##_WS) { \
        cycle += 3; const bool late = cycle >= deadline; const u32 into = u32(cycle - line); \
        if (into - 1 < LINE_CYCLES) cycle = line + LINE_CYCLES; \
        else cycle += i32((LINE_CYCLES - into % LINE_CYCLES) % LINE_CYCLES); \
        line = cycle; \
        if (late) { s.bus = u8(value); at += 2; goto over; } NEXT(2) } \
    OP(name##_GZ) { cycle += 3; BUS_WRITE(ARG, value, 2) } \
    OP(name##_GA) { cycle += 4; BUS_WRITE(ARG, value, 3) }
#define STORES_ZERO(name, mode, index, value) \
    OP(name##_##mode) { \
        address = (ARG + index) & 0xFF; cycle += 4; \
        if (address & 0x80) { ram[address & 0x7F] = u8(value); NEXT(2) } BUS_WRITE(address, value, 2) }
#define STORES_TABLE(mode, index) \
    OP(STA_##mode) { \
        address = (ARG + index) & 0xFFFF; \
        if (address & 0x1000 && (address & 0xFFF) - low >= span) goto slow; \
        cycle += 5; WRITE_ANY(a, 3) }
#define MODIFIES(name, what) \
    OP(name##_RZ) { cycle += 5; m = ram[ARG]; what; ram[ARG] = u8(m); nz = m; NEXT(2) } \
    OP(name##_ZX) { \
        address = (ARG + x) & 0xFF; if (!(address & 0x80)) goto slow; cycle += 6; \
        address &= 0x7F; m = ram[address]; what; ram[address] = u8(m); nz = m; NEXT(2) }
#define BRANCHES(name, taken) OP(name) { \
    cycle += 2; \
    if (taken) { if (cycle > give_up) goto gave_up; cycle += i32(ARG & 3); at += SIGNED_ARG >> 2; NEXT(0) } \
    NEXT(2) }
#define IMPLIES(name, what) OP(name) { cycle += 2; what; NEXT(1) }
#define COMPARE(left) { c = left >= m; nz = (left - m) & 0xFF; }
#define ADC() { \
    if (d) goto decimal_adc; \
    { const u32 sum = a + m + c; v = (a ^ sum) & (m ^ sum); c = sum >> 8; a = nz = sum & 0xFF; } }
#define ASL() { c = m >> 7; m = m << 1 & 0xFF; }
#define LSR() { c = m & 1; m >>= 1; }
#define ROL() { m = m << 1 | c; c = m >> 8; m &= 0xFF; }
#define ROR() { m |= c << 8; c = m & 1; m >>= 1; }
// Decimal mode is rare, so the plain interpreter executes decimal additions, without inlining.
#define DECIMAL(which) { STORE_CPU(); which(s.cpu, u8(m)); LOAD_CPU(); }
#define ADD() { if (d) DECIMAL(cpu_adc) else { const u32 sum = a + m + c; v = (a ^ sum) & (m ^ sum); c = sum >> 8; a = nz = sum & 0xFF; } }
#define SUBTRACT() { if (d) DECIMAL(cpu_sbc) else { m ^= 0xFF; const u32 sum = a + m + c; v = (a ^ sum) & (m ^ sum); c = sum >> 8; a = nz = sum & 0xFF; } }

    LOAD_CPU()
    GO(s.cpu.pc, s.bus)

#ifndef FAST_THREADED
next:
    op = *at;
    switch (op & 0xFFFF) {
#endif
    ALU(ORA, a |= m; nz = a)
    ALU(AND, a &= m; nz = a)
    ALU(EOR, a ^= m; nz = a)
    ALU(LDA, a = nz = m)
    ALU(CMP, COMPARE(a))
    ALU(ADC, ADD())
    ALU(SBC, SUBTRACT())
    READS(LDX, x = nz = m) READS_ZERO(LDX, ZY, y, x = nz = m) READS_TABLE(LDX, Y, y, x = nz = m)
    READS(LDY, y = nz = m) READS_ZERO(LDY, ZX, x, y = nz = m) READS_TABLE(LDY, X, x, y = nz = m)
    READS(CPX, COMPARE(x))
    READS(CPY, COMPARE(y))
    OP(BIT_RZ) { cycle += 3; m = ram[ARG]; nz = (a & m) | (m & 0x80) << 8; v = m << 1; NEXT(2) }
    OP(BIT_GZ) { cycle += 3; BUS_READ(ARG, ARG); nz = (a & m) | (m & 0x80) << 8; v = m << 1; NEXT(2) }
    OP(BIT_GA) { cycle += 4; BUS_READ(ARG, ARG >> 8); nz = (a & m) | (m & 0x80) << 8; v = m << 1; NEXT(3) }
    STORES(STA, a) STORES_ZERO(STA, ZX, x, a) STORES_TABLE(AX, x) STORES_TABLE(AY, y)
    OP(STA_IY) {
        address = (POINTER() + y) & 0xFFFF;
        if (address & 0x1000 && (address & 0xFFF) - low >= span) goto slow;
        cycle += 6;
        WRITE_ANY(a, 2)
    }
    STORES(STX, x) STORES_ZERO(STX, ZY, y, x)
    STORES(STY, y) STORES_ZERO(STY, ZX, x, y)
    MODIFIES(INC, m = (m + 1) & 0xFF) MODIFIES(DEC, m = (m - 1) & 0xFF)
    MODIFIES(ASL, ASL()) MODIFIES(LSR, LSR()) MODIFIES(ROL, ROL()) MODIFIES(ROR, ROR())
    IMPLIES(ASL_A, m = a; ASL(); a = nz = m) IMPLIES(LSR_A, m = a; LSR(); a = nz = m)
    IMPLIES(ROL_A, m = a; ROL(); a = nz = m) IMPLIES(ROR_A, m = a; ROR(); a = nz = m)
    BRANCHES(BPL, !(nz & 0x8080)) BRANCHES(BMI, nz & 0x8080) BRANCHES(BVC, !(v & 0x80)) BRANCHES(BVS, v & 0x80)
    BRANCHES(BCC, !c) BRANCHES(BCS, c) BRANCHES(BNE, nz & 0xFF) BRANCHES(BEQ, !(nz & 0xFF))
    IMPLIES(CLC, c = 0) IMPLIES(SEC, c = 1) IMPLIES(CLI, s.cpu.i = 0) IMPLIES(SEI, s.cpu.i = 1) IMPLIES(CLV, v = 0)
    IMPLIES(CLD, d = 0) IMPLIES(SED, d = 1) IMPLIES(NOP, )
    IMPLIES(DEY, y = nz = (y - 1) & 0xFF) IMPLIES(INY, y = nz = (y + 1) & 0xFF)
    IMPLIES(DEX, x = nz = (x - 1) & 0xFF) IMPLIES(INX, x = nz = (x + 1) & 0xFF)
    IMPLIES(TXA, a = nz = x) IMPLIES(TYA, a = nz = y) IMPLIES(TAY, y = nz = a) IMPLIES(TAX, x = nz = a)
    IMPLIES(TSX, x = nz = sp) IMPLIES(TXS, sp = x)
    OP(JMP) { cycle += 3; GO(ARG, ARG >> 8) }
    OP(JMI) { cycle += 5; m = POINTER(); GO(m, m >> 8) }
    OP(JSR) {
        if (sp < 0x81) goto slow;
        cycle += 6;
        m = PC() + 2;
        ram[sp & 0x7F] = u8(m >> 8);
        ram[(sp - 1) & 0x7F] = u8(m);
        sp -= 2;
        GO(ARG, ARG >> 8)
    }
    OP(RTS) {
        if (sp < 0x80 || sp > 0xFD) goto slow;
        cycle += 6;
        m = ram[(sp + 1) & 0x7F] | ram[(sp + 2) & 0x7F] << 8;
        sp += 2;
        GO((m + 1) & 0xFFFF, m >> 8)
    }
    OP(PHA) {
        cycle += 3;
        m = sp;
        sp = (sp - 1) & 0xFF;
        if (m & 0x80) { ram[m & 0x7F] = u8(a); NEXT(1) }
        BUS_WRITE(m, a, 1)
    }
    OP(PHP) {
        cycle += 3;
        m = sp;
        sp = (sp - 1) & 0xFF;
        address = (nz & 0x8080 ? 0x80 : 0) | (v & 0x80) >> 1 | 0x30 | d << 3 | u32(s.cpu.i) << 2 | (nz & 0xFF ? 0 : 2) | c;
        if (m & 0x80) { ram[m & 0x7F] = u8(address); NEXT(1) }
        BUS_WRITE(m, address, 1)
    }
    OP(PLA) {
        if (sp < 0x80 || sp == 0xFF) goto slow;
        cycle += 4;
        sp++;
        a = nz = ram[sp & 0x7F];
        NEXT(1)
    }
    OP(POLL) {
        const u32 reg = ARG & 3, test = ARG >> 2 & 3, crossed = ARG >> 4 & 1;
        for (;;) {
            cycle += 4;
            nz = riot_read(s.riot, 4, cycle);
            cycle += 2;
            if (test == 0 ? !nz : test == 1 ? (nz & 0x80) != 0 : !(nz & 0x80)) break;
            const i32 period = 7 + i32(crossed);
            if (test == 0 || (test == 1 && nz < 0x80)) cycle += period * riot_reads_before_zero(s.riot, u8(nz), cycle - 2, period);
            cycle += 1 + i32(crossed);
            if (cycle > give_up) goto gave_up;
        }
        if (reg == 0) a = nz;
        else if (reg == 1) x = nz;
        else y = nz;
        NEXT(5)
    }
    OP(SLOW) { goto slow; }
#ifndef FAST_THREADED
        default: return GAVE_UP;
    }
#endif
    // clang-format on

slow:
    s.cpu.pc = PC();
slow_at_pc:
    STORE_CPU()
    do {
        if (s.cycle > give_up || k.writes_twice()) return GAVE_UP;
        k.step_slow();
        if (k.frame_over) return FRAME_OVER;
    } while (!(s.cpu.pc & 0x1000));
    k.map();
    LOAD_CPU()
    GO(s.cpu.pc, s.bus)

over:
    s.cpu.pc = PC();
    STORE_CPU()
    return FRAME_OVER;

gave_up:
    return GAVE_UP;
}

}  // namespace accel
