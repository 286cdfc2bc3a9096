// The body (code) of each instruction of the fast core is a macro, which the interpreter (cpu.h) and translated ROMs
// expand.
// | READ_IM(LDA)    m = operand; DO_LDA; NEXT(2)         the place of the operand, and what is done with `m`
//
// A body uses these names, which the function that expands the body defines:
// | registers       a x y sp nz c v d, `cycle`, `zero` and `line` (cpu.h), and m, address and offset as temporaries
// | console         s, k, ram, rom, low, span, deadline, give_up
// | ARG HERE        the instruction's operand and its offset in the ROM
// | NEXT(n)         continues n bytes later                TAKE             continues at the target of a branch
// | JUMP(to, high)  continues at the operand's address     GO(to, high)     continues at any address
// | SLOWLY          the plain interpreter runs the instruction, whose body has changed nothing
// | END_FRAME(n)    the frame is over; the next instruction is n bytes later
// | WRITE_TIA       writes a register of the TIA         EXECUTE(op)      executes a decoded instruction (interpreter)
#pragma once
#include "console.h"

// clang-format off
#define BUS_READ(from, noise) m = k.read(from, noise, cycle);
#define BUS_WRITE(to, value, n) { cycle = k.write(to, u8(value), cycle); if (k.frame_over) END_FRAME(n) NEXT(n) }
#define SWITCHES_BANK(at) ((at) & 0x1000 && ((at) & 0xFFF) - low >= span)
// Reads an indexed address in the ROM, in the RAM or of a chip. The address must not switch the bank (SWITCHES_BANK).
#define READ_ANY(noise) \
    if (address & 0x1000) m = rom[k.rom_offset(address)]; \
    else if ((address & 0x280) == 0x80) m = ram[address & 0x7F]; \
    else BUS_READ(address, noise)
#define WRITE_ANY(value, n) \
    if ((address & 0x1280) == 0x80) { ram[address & 0x7F] = u8(value); NEXT(n) } \
    BUS_WRITE(address, value, n)

// Reads
#define READ_IM(op) cycle += 2; m = ARG; DO_##op NEXT(2)
#define READ_RZ(op) cycle += 3; m = ram[ARG]; DO_##op NEXT(2)
#define READ_GZ(op) cycle += 3; BUS_READ(ARG, ARG) DO_##op NEXT(2)
#define READ_GA(op) cycle += 4; BUS_READ(ARG, ARG >> 8) DO_##op NEXT(3)
#define READ_INDEXED_ZERO(op, index) \
    address = (ARG + index) & 0xFF; cycle += 4; \
    if (address & 0x80) m = ram[address & 0x7F]; else BUS_READ(address, ARG) \
    DO_##op NEXT(2)
#define READ_ZX(op) READ_INDEXED_ZERO(op, x)
#define READ_ZY(op) READ_INDEXED_ZERO(op, y)
#define READ_TABLE(op, index) cycle += 4 + i32((((ARG & 0xFF) + index) >> 8)); m = rom[ARG + index]; DO_##op NEXT(3)
#define READ_RX(op) READ_TABLE(op, x)
#define READ_RY(op) READ_TABLE(op, y)
#define READ_INDEXED(op, index) \
    address = (ARG + index) & 0xFFFF; offset = k.page[address >> 8 & 63]; \
    if (offset >= 0) { cycle += 4 + i32(((ARG & 0xFF) + index) >> 8); m = rom[u32(offset) + (address & 0xFF)]; DO_##op NEXT(3) } \
    if (SWITCHES_BANK(address)) SLOWLY \
    cycle += 4 + i32(((ARG ^ address) & 0xFF00) != 0); \
    READ_ANY(ARG >> 8) DO_##op NEXT(3)
#define READ_AX(op) READ_INDEXED(op, x)
#define READ_AY(op) READ_INDEXED(op, y)
#define READ_IY(op) \
    m = pointer_at(ram + ARG); address = (m + y) & 0xFFFF; offset = k.page[address >> 8 & 63]; \
    if (offset >= 0) { cycle += 5 + i32(((m & 0xFF) + y) >> 8); m = rom[u32(offset) + (address & 0xFF)]; DO_##op NEXT(2) } \
    if (SWITCHES_BANK(address)) SLOWLY \
    cycle += 5 + ((m ^ address) & 0xFF00 ? 1 : 0); \
    READ_ANY(m >> 8) DO_##op NEXT(2)
#define READ_IX(op) \
    m = (ARG + x) & 0xFF; if (m < 0x80 || m == 0xFF) SLOWLY \
    address = pointer_at(ram + (m & 0x7F)); offset = k.page[address >> 8 & 63]; m = address; \
    if (offset >= 0) { cycle += 6; m = rom[u32(offset) + (address & 0xFF)]; DO_##op NEXT(2) } \
    if (SWITCHES_BANK(address)) SLOWLY \
    cycle += 6; \
    READ_ANY(m >> 8) DO_##op NEXT(2)

#define COMPARE(left) c = left >= m; nz = (left - m) & 0xFF;
#define ADD() { const u32 sum = a + m + c; v = (a ^ sum) & (m ^ sum); c = sum >> 8; a = nz = sum & 0xFF; }
// Decimal mode is rare, so the functions of the plain interpreter (core/cpu.h) compute its sums and differences.
#define DECIMAL(function) { STORE_CPU() function(s.cpu, u8(m)); LOAD_CPU() }
#define DO_ORA a |= m; nz = a;
#define DO_AND a &= m; nz = a;
#define DO_EOR a ^= m; nz = a;
#define DO_ADC if (d) DECIMAL(cpu_adc) else ADD()
#define DO_SBC if (d) DECIMAL(cpu_sbc) else { m ^= 0xFF; ADD() }
#define DO_LDA a = nz = m;
#define DO_LDX x = nz = m;
#define DO_LDY y = nz = m;
#define DO_CMP COMPARE(a)
#define DO_CPX COMPARE(x)
#define DO_CPY COMPARE(y)
#define DO_BIT nz = (a & m) | (m & 0x80) << 8; v = m << 1;

// Stores
#define VALUE_STA a
#define VALUE_STX x
#define VALUE_STY y
#define STORE_RZ(op) cycle += 3; ram[ARG] = u8(VALUE_##op); NEXT(2)
#define STORE_REGISTER(op, remember) \
    cycle += 3; \
    if (k.log.last[ARG] != VALUE_##op) { WRITE_TIA(ARG, VALUE_##op) remember } \
    if (cycle >= deadline) { s.bus = u8(VALUE_##op); END_FRAME(2) } \
    NEXT(2)
#define STORE_TZ(op) STORE_REGISTER(op, k.log.last[ARG] = u16(VALUE_##op);)
#define STORE_TS(op) STORE_REGISTER(op, k.log.keep(ARG, VALUE_##op);)
#define STORE_WS(op) \
    cycle += 3; const bool late = cycle >= deadline; const u32 into = u32(cycle - line); \
    if (into - 1 < LINE_CYCLES) cycle = line + LINE_CYCLES; \
    else cycle += i32((LINE_CYCLES - into % LINE_CYCLES) % LINE_CYCLES); \
    line = cycle; \
    if (late) { s.bus = u8(VALUE_##op); END_FRAME(2) } \
    NEXT(2)
#define STORE_GZ(op) cycle += 3; BUS_WRITE(ARG, VALUE_##op, 2)
#define STORE_GA(op) cycle += 4; BUS_WRITE(ARG, VALUE_##op, 3)
#define STORE_INDEXED_ZERO(op, index) \
    address = (ARG + index) & 0xFF; cycle += 4; \
    if (address & 0x80) { ram[address & 0x7F] = u8(VALUE_##op); NEXT(2) } \
    BUS_WRITE(address, VALUE_##op, 2)
#define STORE_ZX(op) STORE_INDEXED_ZERO(op, x)
#define STORE_ZY(op) STORE_INDEXED_ZERO(op, y)
#define STORE_INDEXED(op, index) address = (ARG + index) & 0xFFFF; if (SWITCHES_BANK(address)) SLOWLY cycle += 5; WRITE_ANY(VALUE_##op, 3)
#define STORE_AX(op) STORE_INDEXED(op, x)
#define STORE_AY(op) STORE_INDEXED(op, y)
#define STORE_IY(op) address = (pointer_at(ram + ARG) + y) & 0xFFFF; if (SWITCHES_BANK(address)) SLOWLY cycle += 6; WRITE_ANY(VALUE_##op, 2)

// Read-modify-writes
#define DO_INC m = (m + 1) & 0xFF;
#define DO_DEC m = (m - 1) & 0xFF;
#define DO_ASL c = m >> 7; m = m << 1 & 0xFF;
#define DO_LSR c = m & 1; m >>= 1;
#define DO_ROL m = m << 1 | c; c = m >> 8; m &= 0xFF;
#define DO_ROR m |= c << 8; c = m & 1; m >>= 1;
#define MODIFY_RZ(op) cycle += 5; m = ram[ARG]; DO_##op ram[ARG] = u8(m); nz = m; NEXT(2)
#define MODIFY_ZX(op) \
    address = (ARG + x) & 0xFF; if (!(address & 0x80)) SLOWLY \
    cycle += 6; address &= 0x7F; m = ram[address]; DO_##op ram[address] = u8(m); nz = m; NEXT(2)
#define MODIFY_GZ(op) cycle += 5; BUS_READ(ARG, ARG) DO_##op nz = m; BUS_WRITE(ARG, m, 2)
#define MODIFY_GA(op) cycle += 6; BUS_READ(ARG, ARG >> 8) DO_##op nz = m; BUS_WRITE(ARG, m, 3)
#define SHIFT_A(op) cycle += 2; m = a; DO_##op a = nz = m; NEXT(1)

// Instructions without an operand
#define IMPLY(op) cycle += 2; DO_##op NEXT(1)
#define DO_NOP
#define DO_CLC c = 0;
#define DO_SEC c = 1;
#define DO_CLI s.cpu.i = 0;
#define DO_SEI s.cpu.i = 1;
#define DO_CLV v = 0;
#define DO_CLD d = 0;
#define DO_SED d = 1;
#define DO_DEY y = nz = (y - 1) & 0xFF;
#define DO_INY y = nz = (y + 1) & 0xFF;
#define DO_DEX x = nz = (x - 1) & 0xFF;
#define DO_INX x = nz = (x + 1) & 0xFF;
#define DO_TXA a = nz = x;
#define DO_TYA a = nz = y;
#define DO_TAY y = nz = a;
#define DO_TAX x = nz = a;
#define DO_TSX x = nz = sp;
#define DO_TXS sp = x;

// Branches and jumps
#define IF_BPL !(nz & 0x8080)
#define IF_BMI (nz & 0x8080)
#define IF_BVC !(v & 0x80)
#define IF_BVS (v & 0x80)
#define IF_BCC !c
#define IF_BCS c
#define IF_BNE (nz & 0xFF)
#define IF_BEQ !(nz & 0xFF)
#define BRANCH(op) cycle += 2; if (IF_##op) { if (cycle > give_up) goto gave_up; cycle += i32(ARG & 3); TAKE } NEXT(2)
#define JMP(op) cycle += 3; JUMP(ARG, ARG >> 8)
#define JMI(op) cycle += 5; m = pointer_at(ram + ARG); GO(m, m >> 8)
#define JSR(op) \
    if (sp < 0x81) SLOWLY \
    cycle += 6; m = u16(HERE - zero) + 2; \
    ram[sp & 0x7F] = u8(m >> 8); ram[(sp - 1) & 0x7F] = u8(m); \
    sp -= 2; \
    JUMP(ARG, ARG >> 8)
#define RTS(op) \
    if (sp < 0x80 || sp > 0xFD) SLOWLY \
    cycle += 6; m = ram[(sp + 1) & 0x7F] | ram[(sp + 2) & 0x7F] << 8; \
    sp += 2; \
    GO((m + 1) & 0xFFFF, m >> 8)

// The stack
#define FLAGS() ((nz & 0x8080 ? 0x80 : 0) | (v & 0x80) >> 1 | 0x30 | d << 3 | u32(s.cpu.i) << 2 | (nz & 0xFF ? 0 : 2) | c)
#define SET_FLAGS(flags) \
    m = (flags); c = m & 1; nz = (m & 0x80) << 8 | (m & 2 ? 0 : 1); s.cpu.i = m >> 2 & 1; d = m >> 3 & 1; v = m << 1;
#define PUSH(value) \
    cycle += 3; m = sp; sp = (sp - 1) & 0xFF; address = (value); \
    if (m & 0x80) { ram[m & 0x7F] = u8(address); NEXT(1) } \
    BUS_WRITE(m, address, 1)
#define PHA(op) PUSH(a)
#define PHP(op) PUSH(FLAGS())
// PLA first reads the byte at the old stack pointer, as on the 6507.
#define PLA(op) \
    cycle += 4; \
    if (sp >= 0x80 && sp < 0xFF) { sp++; a = nz = ram[sp & 0x7F]; NEXT(1) } \
    BUS_READ(0x100 | sp, 0x68) sp = (sp + 1) & 0xFF; address = m; BUS_READ(0x100 | sp, address) a = nz = m; NEXT(1)
#define PLP(op) if (sp < 0x80 || sp == 0xFF) SLOWLY cycle += 4; sp++; SET_FLAGS(ram[sp & 0x7F]) NEXT(1)
#define RTI(op) \
    if (sp < 0x80 || sp > 0xFC) SLOWLY \
    cycle += 6; SET_FLAGS(ram[(sp + 1) & 0x7F]) \
    m = ram[(sp + 2) & 0x7F] | ram[(sp + 3) & 0x7F] << 8; \
    sp += 3; \
    GO(m, m >> 8)
#define BRK(op) \
    if (sp < 0x83) SLOWLY \
    cycle += 7; m = u16(HERE - zero) + 2; \
    ram[sp & 0x7F] = u8(m >> 8); ram[(sp - 1) & 0x7F] = u8(m); ram[(sp - 2) & 0x7F] = u8(FLAGS()); \
    sp -= 3; s.cpu.i = 1; \
    BUS_READ(0xFFFE, m) address = m; BUS_READ(0xFFFF, address) m = address | m << 8; \
    GO(m, m >> 8)

#define POLL(op) \
    for (;;) { \
        cycle += 4; nz = riot_read(s.riot, 4, cycle); cycle += 2; \
        const u32 test = ARG >> 2 & 3; const i32 crossed = ARG >> 4 & 1; \
        if (test == 0 ? !nz : test == 1 ? (nz & 0x80) != 0 : !(nz & 0x80)) break; \
        if (test == 0 || (test == 1 && nz < 0x80)) cycle += (7 + crossed) * riot_reads_before_zero(s.riot, u8(nz), cycle - 2, 7 + crossed); \
        cycle += 1 + crossed; \
        if (cycle > give_up) goto gave_up; \
    } \
    if ((ARG & 3) == 0) a = nz; else if ((ARG & 3) == 1) x = nz; else y = nz; \
    NEXT(5)
#define SLOW(op) SLOWLY
// An instruction in RAM is decoded when it is reached, and then executed.
#define RAM(op) EXECUTE(k.ram_code.decoded(ram, HERE & 0x7F, low, k.high))
// clang-format on

namespace accel {

HD u32 pointer_at(const u8* ram) {
    u16 word;
    copy_bytes(&word, ram, 2);
    return word;
}

}  // namespace accel
