// Fetches, decodes and executes one instruction of the 6507.
// | opcode  aaabbbcc     the table below, by opcode; modes name the place of the operand:
// | IM immediate  ZP ZX ZY zero page  AB AX AY absolute  IX (zp,X)  IY (zp),Y      x: + 1 cycle when a page is crossed
//
// Indexed reads (AX, AY) take one more cycle if they cross a page of 256 bytes. The base count of an indexed store
// includes one more cycle, because a store takes this cycle on any page.
#pragma once
#include "cpu.h"

namespace accel {

// The cycles of each opcode, as one digit, without the extra cycles of taken branches and crossed pages.
HD u32 base_cycles(u32 opcode) {
    static constexpr u8 cycles[256] = {
        // clang-format off
        7, 6, 2, 2, 2, 3, 5, 2, 3, 2, 2, 2, 2, 4, 6, 2, 2, 5, 2, 2, 2, 4, 6, 2, 2, 4, 2, 2, 2, 4, 7, 2,
        6, 6, 2, 2, 3, 3, 5, 2, 4, 2, 2, 2, 4, 4, 6, 2, 2, 5, 2, 2, 2, 4, 6, 2, 2, 4, 2, 2, 2, 4, 7, 2,
        6, 6, 2, 2, 2, 3, 5, 2, 3, 2, 2, 2, 3, 4, 6, 2, 2, 5, 2, 2, 2, 4, 6, 2, 2, 4, 2, 2, 2, 4, 7, 2,
        6, 6, 2, 2, 2, 3, 5, 2, 4, 2, 2, 2, 5, 4, 6, 2, 2, 5, 2, 2, 2, 4, 6, 2, 2, 4, 2, 2, 2, 4, 7, 2,
        2, 6, 2, 2, 3, 3, 3, 2, 2, 2, 2, 2, 4, 4, 4, 2, 2, 6, 2, 2, 4, 4, 4, 2, 2, 5, 2, 2, 2, 5, 2, 2,
        2, 6, 2, 2, 3, 3, 3, 2, 2, 2, 2, 2, 4, 4, 4, 2, 2, 5, 2, 2, 4, 4, 4, 2, 2, 4, 2, 2, 4, 4, 4, 2,
        2, 6, 2, 2, 3, 3, 5, 2, 2, 2, 2, 2, 4, 4, 6, 2, 2, 5, 2, 2, 2, 4, 6, 2, 2, 4, 2, 2, 2, 4, 7, 2,
        2, 6, 2, 2, 3, 3, 5, 2, 2, 2, 2, 2, 4, 4, 6, 2, 2, 5, 2, 2, 2, 4, 6, 2, 2, 4, 2, 2, 2, 4, 7, 2,
        // clang-format on
    };
    return cycles[opcode];
}

template <class Bus>
struct Instruction {
    Cpu& p;
    Bus& bus;

    HD u8 fetch() { return bus.fetch(p.pc++); }
    HD u32 fetch16() {
        const u32 low = fetch();
        return low | u32(fetch()) << 8;
    }
    HD u32 word(u32 low_at, u32 high_at) {
        const u32 low = bus.read(low_at);
        return low | u32(bus.read(high_at)) << 8;
    }
    HD u32 indexed(u32 base, u32 index, bool counts) {
        const u32 address = (base + index) & 0xFFFF;
        if (counts && ((base ^ address) & 0xFF00)) bus.tick(1);
        return address;
    }
    HD u32 zp() { return fetch(); }
    HD u32 zx() { return u8(fetch() + p.x); }
    HD u32 zy() { return u8(fetch() + p.y); }
    HD u32 ab() { return fetch16(); }
    HD u32 ax(bool counts) { return indexed(fetch16(), p.x, counts); }
    HD u32 ay(bool counts) { return indexed(fetch16(), p.y, counts); }
    HD u32 ix() {
        const u8 at = u8(fetch() + p.x);
        return word(at, u8(at + 1));
    }
    HD u32 iy(bool counts) {
        const u8 at = fetch();
        return indexed(word(at, u8(at + 1)), p.y, counts);
    }

    HD void nz(u8 value) { p.n = p.z = value; }
    HD void push(u8 value) { bus.write(0x100 | p.sp--, value); }
    HD u8 pull() { return bus.read(0x100 | ++p.sp); }
    // A pull first reads the byte at the old stack pointer. If the pulled byte is read from the TIA, undriven bits keep
    // the value of the first byte.
    HD void before_pull() { bus.read(0x100 | p.sp); }

    HD void branch(bool taken) {
        const i8 offset = i8(fetch());
        if (!taken) return;
        const u16 target = u16(p.pc + offset);
        bus.tick((p.pc ^ target) & 0xFF00 ? 2 : 1);
        p.pc = target;
    }
    HD void compare(u8 left, u8 right) {
        p.c = left >= right;
        nz(u8(left - right));
    }
    HD void bit(u8 m) {
        p.z = p.a & m;
        p.n = m;
        p.v = m >> 6 & 1;
    }
    HD void load(u8& target, u8 m) { nz(target = m); }
    HD void ora(u8 m) { nz(p.a |= m); }
    HD void land(u8 m) { nz(p.a &= m); }
    HD void eor(u8 m) { nz(p.a ^= m); }

    // clang-format off
    HD u8 asl(u8 m) { p.c = m >> 7; nz(u8(m << 1)); return p.n; }
    HD u8 lsr(u8 m) { p.c = m & 1; nz(m >> 1); return p.n; }
    HD u8 rol(u8 m) { const u8 c = p.c; p.c = m >> 7; nz(u8(m << 1 | c)); return p.n; }
    HD u8 ror(u8 m) { const u8 c = p.c; p.c = m & 1; nz(u8(m >> 1 | c << 7)); return p.n; }
    HD u8 inc(u8 m) { nz(++m); return m; }
    HD u8 dec(u8 m) { nz(--m); return m; }
    // clang-format on

    HD void brk() {
        p.pc++;
        push(u8(p.pc >> 8));
        push(u8(p.pc));
        push(cpu_flags(p, true));
        p.i = 1;
        p.pc = u16(word(0xFFFE, 0xFFFF));
    }
    HD void jsr() {
        const u8 low = fetch();
        push(u8(p.pc >> 8));
        push(u8(p.pc));
        p.pc = u16(low | bus.fetch(p.pc) << 8);
    }
    HD void rts() {
        before_pull();
        const u8 low = pull();
        p.pc = u16((low | pull() << 8) + 1);
    }
    HD void rti() {
        before_pull();
        cpu_set_flags(p, pull());
        const u8 low = pull();
        p.pc = u16(low | pull() << 8);
    }

    // Runs one instruction. Read-modify-write instructions write once, while a real 6507 writes twice.
    HD void step() {
        const u8 opcode = fetch();
        bus.tick(base_cycles(opcode));
        u32 at;
        switch (opcode) {
            // clang-format off
#define READ(mode, code, what) case code: { const u8 m = bus.read(mode); what; break; }
#define IMMEDIATE(code, what) case code: { const u8 m = fetch(); what; break; }
#define MODIFY(mode, code, name) case code: at = mode; bus.write(at, name(bus.read(at))); break;
#define STORE(mode, code, value) case code: at = mode; bus.write(at, value); break;
#define ARITHMETIC(first, what) \
    READ(ix(), first + 0x01, what) READ(zp(), first + 0x05, what) IMMEDIATE(first + 0x09, what) \
    READ(ab(), first + 0x0D, what) READ(iy(true), first + 0x11, what) READ(zx(), first + 0x15, what) \
    READ(ay(true), first + 0x19, what) READ(ax(true), first + 0x1D, what)
#define SHIFT(first, name) \
    case first + 0x0A: p.a = name(p.a); break; \
    MODIFY(zp(), first + 0x06, name) MODIFY(ab(), first + 0x0E, name) \
    MODIFY(zx(), first + 0x16, name) MODIFY(ax(false), first + 0x1E, name)
            ARITHMETIC(0x00, ora(m)) ARITHMETIC(0x20, land(m)) ARITHMETIC(0x40, eor(m))
            ARITHMETIC(0x60, cpu_adc(p, m)) ARITHMETIC(0xA0, load(p.a, m))
            ARITHMETIC(0xC0, compare(p.a, m)) ARITHMETIC(0xE0, cpu_sbc(p, m))
            SHIFT(0x00, asl) SHIFT(0x20, rol) SHIFT(0x40, lsr) SHIFT(0x60, ror)
            MODIFY(zp(), 0xC6, dec) MODIFY(ab(), 0xCE, dec) MODIFY(zx(), 0xD6, dec) MODIFY(ax(false), 0xDE, dec)
            MODIFY(zp(), 0xE6, inc) MODIFY(ab(), 0xEE, inc) MODIFY(zx(), 0xF6, inc) MODIFY(ax(false), 0xFE, inc)
            STORE(ix(), 0x81, p.a) STORE(zp(), 0x85, p.a) STORE(ab(), 0x8D, p.a) STORE(iy(false), 0x91, p.a)
            STORE(zx(), 0x95, p.a) STORE(ay(false), 0x99, p.a) STORE(ax(false), 0x9D, p.a)
            STORE(zp(), 0x86, p.x) STORE(ab(), 0x8E, p.x) STORE(zy(), 0x96, p.x)
            STORE(zp(), 0x84, p.y) STORE(ab(), 0x8C, p.y) STORE(zx(), 0x94, p.y)
            IMMEDIATE(0xA2, load(p.x, m)) READ(zp(), 0xA6, load(p.x, m)) READ(ab(), 0xAE, load(p.x, m))
            READ(zy(), 0xB6, load(p.x, m)) READ(ay(true), 0xBE, load(p.x, m))
            IMMEDIATE(0xA0, load(p.y, m)) READ(zp(), 0xA4, load(p.y, m)) READ(ab(), 0xAC, load(p.y, m))
            READ(zx(), 0xB4, load(p.y, m)) READ(ax(true), 0xBC, load(p.y, m))
            IMMEDIATE(0xE0, compare(p.x, m)) READ(zp(), 0xE4, compare(p.x, m)) READ(ab(), 0xEC, compare(p.x, m))
            IMMEDIATE(0xC0, compare(p.y, m)) READ(zp(), 0xC4, compare(p.y, m)) READ(ab(), 0xCC, compare(p.y, m))
            READ(zp(), 0x24, bit(m)) READ(ab(), 0x2C, bit(m))
#undef READ
#undef IMMEDIATE
#undef MODIFY
#undef STORE
#undef ARITHMETIC
#undef SHIFT
            case 0x10: branch(!(p.n & 0x80)); break;
            case 0x30: branch(p.n & 0x80); break;
            case 0x50: branch(!p.v); break;
            case 0x70: branch(p.v); break;
            case 0x90: branch(!p.c); break;
            case 0xB0: branch(p.c); break;
            case 0xD0: branch(p.z != 0); break;
            case 0xF0: branch(p.z == 0); break;
            case 0x4C: p.pc = u16(fetch16()); break;
            case 0x6C:  // JMP ($xxFF) reads its high byte from $xx00, because the pointer has no carry into its page.
                at = fetch16();
                p.pc = u16(word(at, (at & 0xFF00) | ((at + 1) & 0xFF)));
                break;
            case 0x00: brk(); break;
            case 0x20: jsr(); break;
            case 0x40: rti(); break;
            case 0x60: rts(); break;
            case 0x08: push(cpu_flags(p, true)); break;
            case 0x28: before_pull(); cpu_set_flags(p, pull()); break;
            case 0x48: push(p.a); break;
            case 0x68: before_pull(); load(p.a, pull()); break;
                // clang-format on
            case 0x18: p.c = 0; break;
            case 0x38: p.c = 1; break;
            case 0x58: p.i = 0; break;
            case 0x78: p.i = 1; break;
            case 0xB8: p.v = 0; break;
            case 0xD8: p.d = 0; break;
            case 0xF8: p.d = 1; break;
            case 0x88: nz(--p.y); break;
            case 0xC8: nz(++p.y); break;
            case 0xCA: nz(--p.x); break;
            case 0xE8: nz(++p.x); break;
            case 0x8A: load(p.a, p.x); break;
            case 0x98: load(p.a, p.y); break;
            case 0xA8: load(p.y, p.a); break;
            case 0xAA: load(p.x, p.a); break;
            case 0xBA: load(p.x, p.sp); break;
            case 0x9A: p.sp = p.x; break;
            default: break;  // NOP (0xEA) and undocumented opcodes have no effect.
        }
    }
};

}  // namespace accel
