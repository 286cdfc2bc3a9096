// The 6507 of one lane runs instructions up to the end of a scan line, by stages (stages.h).
// | lanes     0  line 17 ......|        line 18 ...
// |           1  line 17 ..|   |        line 18 ......      all lanes meet at the end of every scan line, so that they
// |           2  line 17 ....| |        line 18 ....        run the same part of the program at the same time
//
// As with run_fast (core/fast/cpu.h), a frame ends with the same State and log, or the frame is given up.
// The plain interpreter runs instructions for which there is no stage, one at a time.
#pragma once
#include "settle.h"
#include "stages.h"

namespace accel {

constexpr u8 POLL_CODE = 0x02;     // POLL_CODE marks LDA, LDX or LDY INTIM with a branch back to the load.
constexpr u8 UNDOCUMENTED = 0x12;  // UNDOCUMENTED replaces the opcode 0x02 if a ROM contains 0x02.

// A Program is a ROM with its polling loops marked. `rom` and `code` have two bytes more than the ROM.
struct Program {
    const u8* rom;
    const u8* code;  // In `code`, the first byte of each polling loop is POLL_CODE.
    const Stages* stages;
};

enum FrameEnd : u32 { RUNNING, OVER, ABANDONED };

constexpr u32 MOST_LOGGED = 1536;  // The log has room for 1,536 writes; a frame of the 57 games has at most 1,061 writes.

// Some offsets of a bank are plain ROM, and bit 13 of an address may choose the bank.
struct PlainRom {
    u32 low, high;
    bool far_banks;
};

struct LaneCpu {
    u32 a, x, y, sp, nz, c, v, d, pc;
    i32 cycle, line_end;
    u64 slices;  // The offsets of the cartridge's four slices have 16 bits each.
    u32 end;
    u32 iterations;

    HD void load(const State& s) {
        a = s.cpu.a, x = s.cpu.x, y = s.cpu.y, sp = s.cpu.sp, c = s.cpu.c, d = s.cpu.d;
        v = u32(s.cpu.v) << 7;
        nz = (s.cpu.n & 0x80u) << 8 | (s.cpu.z ? 1 : 0);
        cycle = s.cycle, pc = s.cpu.pc;
        map(s.cartridge);
    }
    HD void store(State& s) const {
        s.cpu.a = u8(a), s.cpu.x = u8(x), s.cpu.y = u8(y), s.cpu.sp = u8(sp), s.cpu.c = u8(c), s.cpu.d = u8(d);
        s.cpu.v = v & 0x80 ? 1 : 0;
        s.cpu.n = nz & 0x8080 ? 0x80 : 0;
        s.cpu.z = nz & 0xFF ? 1 : 0;
        s.cycle = cycle, s.cpu.pc = u16(pc);
    }
    HD void map(const Cartridge& cartridge) {
        slices = 0;
        for (u32 i = 0; i < 4; i++) slices |= u64(cartridge.slice[i]) << (16 * i);
    }

    HD void begin_frame(const State& s) {
        load(s);
        line_end = cycle + LINE_CYCLES;
        end = RUNNING;
    }

    // Returns the ROM offset of a page of 256 bytes, or -1 if the page is not plain ROM.
    HD i32 page(const PlainRom& plain, u32 address) const {
        const u32 first = address & 0xF00;
        if (!(address & 0x1000) || first < plain.low || first + 256 > plain.high) return -1;
        const u32 bank = plain.far_banks && !(address & 0x2000) ? 0x1000 : 0;
        return i32(u32(slices >> (address >> 6 & 48) & 0xFFFF) + (address & 0x300) + bank);
    }

    // Runs to the end of the scan line, and returns whether the frame continues.
    // The parameter `s` is the state of the bus.
    // The loop works on a copy whose address no called function receives, so that a GPU keeps the copy in registers.
    HD bool run_line(State& s, FastBus& bus, const Program& program) {
        const PlainRom plain{bus.low, bus.high, bus.rom.kind == CART_FE};
        LaneCpu cpu = *this;
        while (cpu.end == RUNNING && cpu.cycle < cpu.line_end) {
            cpu.iterations++;
            cpu.step(s, bus, plain, program);
        }
        cpu.line_end += LINE_CYCLES;
        if (cpu.end == OVER && cpu.cycle > bus.give_up + 100) cpu.end = ABANDONED;
        if (cpu.end == RUNNING && (cpu.cycle > bus.give_up || bus.log.count + LINE_CYCLES > MOST_LOGGED)) cpu.end = ABANDONED;
        *this = cpu;
        return end == RUNNING;
    }

    HD void step(State& s, FastBus& bus, const PlainRom& plain, const Program& program) {
        u8* const ram = s.ram;
        // the instruction's bytes
        const i32 here = page(plain, pc);
        const u32 at = u32(here) + (pc & 255);
        u32 opcode = 0, b1 = 0, b2 = 0;
        Stages stages{0};
        if (here >= 0 && ((pc & 255) <= 253 || page(plain, pc + 256) == here + 256)) {
            opcode = program.code[at], b1 = program.rom[at + 1], b2 = program.rom[at + 2];
            stages = program.stages[opcode];
        }

        // the operand's address
        const u32 mode = stages.mode(), work = stages.work();
        bool slow = work == WORK_SLOW || (pc & 0xFFF) + stages.length() > 0xFFF;
        u32 address = b1, base = b1 | b2 << 8, m = b1;
        if (mode == MODE_ZX) address = (b1 + x) & 255;
        if (mode == MODE_ZY) address = (b1 + y) & 255;
        if (mode == MODE_IY) {
            slow |= b1 < 0x80 || b1 == 0xFF;
            const u8* const pointer = ram + (slow ? 0 : b1 & 0x7F);
            base = pointer[0] | u32(pointer[1]) << 8;
        }
        if (mode >= MODE_AB && mode <= MODE_IY) {
            const u32 index = mode == MODE_AX ? x : mode == MODE_AB ? 0 : y;
            address = (base + index) & 0xFFFF;
        }

        const bool touches = stages.reads() || stages.writes(), in_ram = (address & 0x1280) == 0x80;
        const i32 there = page(plain, address);
        slow |= touches && address & 0x1000 && there < 0;  // Bank switches and accesses to a cartridge's registers are slow.
        slow |= work >= WORK_JSR && leaves_ram(work);
        slow |= d && stages.extra() == RIGHT_DECIMAL && work == WORK_ADD;
        if (slow) return step_slow(s, bus, program, opcode, at);

        // read
        cycle += stages.cycles();
        if (stages.counts_pages() && (base ^ address) & 0xFF00) cycle++;
        if (stages.reads()) {
            if (in_ram) m = ram[address & 0x7F];
            else if (there >= 0) m = program.rom[u32(there) + (address & 255)];
            else m = bus.read(address, mode == MODE_ZP || mode == MODE_ZX || mode == MODE_ZY ? b1 : base >> 8, cycle);
        }

        const u32 from = stages.left(), carry_in = stages.carry_in() == CARRY_C ? c : stages.carry_in();
        const u32 left = from == IN_A ? a : from == IN_X ? x : from == IN_Y ? y : from == IN_SP ? sp : m;
        u32 result = left, carry = c;
        pc += stages.length();
        switch (work) {
            case WORK_OR: result = left | m; break;
            case WORK_AND: result = left & m; break;
            case WORK_EOR: result = left ^ m; break;
            case WORK_ADD: {
                const u32 right = (stages.extra() == RIGHT_NONE ? 0 : m) ^ (stages.inverts() ? 0xFF : 0);
                const u32 sum = left + right + carry_in;
                if (stages.sets_v()) v = (left ^ sum) & (right ^ sum);
                carry = sum >> 8;
                result = sum & 0xFF;
                break;
            }
            case WORK_LEFT:
                result = left << 1 | carry_in;
                carry = result >> 8;
                result &= 0xFF;
                break;
            case WORK_RIGHT:
                result = left | carry_in << 8;
                carry = result & 1;
                result >>= 1;
                break;
            case WORK_BIT:
                nz = (a & m) | (m & 0x80) << 8;
                v = m << 1;
                break;
            case WORK_FLAG: set_flag(stages.extra()); break;
            case WORK_BRANCH: branch(s, stages.extra(), b1); break;
            case WORK_JSR:
                ram[sp & 0x7F] = u8((pc - 1) >> 8);
                ram[(sp - 1) & 0x7F] = u8(pc - 1);
                sp -= 2;
                jump(s, base);
                break;
            case WORK_JMP: jump(s, base); break;
            case WORK_RTS: {
                const u32 back = ram[(sp + 1) & 0x7F] | u32(ram[(sp + 2) & 0x7F]) << 8;
                s.bus = u8(back >> 8);
                pc = back + 1;
                sp += 2;
                break;
            }
            case WORK_PUSH:
                ram[sp & 0x7F] = u8(a);
                sp = (sp - 1) & 0xFF;
                break;
            case WORK_PULL:
                sp++;
                result = ram[sp & 0x7F];
                break;
            default: break;
        }
        pc &= 0xFFFF;

        // results
        const u32 target = stages.target();
        if (stages.sets_nz()) nz = result;
        if (stages.sets_c()) c = carry;
        if (target == IN_A) a = result;
        if (target == IN_X) x = result;
        if (target == IN_Y) y = result;
        if (target == IN_SP) sp = result;
        if (!stages.writes()) return;
        if (in_ram) {
            ram[address & 0x7F] = u8(result);
            return;
        }
        cycle = bus.write(address, u8(result), cycle);
        if (bus.frame_over) end = OVER;
    }

    // Returns whether a push or pull accesses an address outside the RAM.
    HD bool leaves_ram(u32 work) const {
        if (work == WORK_JSR) return sp < 0x81;
        if (work == WORK_RTS) return sp < 0x80 || sp > 0xFD;
        if (work == WORK_PULL) return sp < 0x80 || sp == 0xFF;
        return sp < 0x80;
    }
    HD void set_flag(u32 flag) {
        if (flag == CLEAR_C || flag == SET_C) c = flag == SET_C;
        if (flag == CLEAR_D || flag == SET_D) d = flag == SET_D;
        if (flag == CLEAR_V) v = 0;
    }
    // For a branch, `which` has the flag (N, V, C, Z) and the value at which the branch is taken.
    HD void branch(State& s, u32 which, u32 offset) {
        const u32 flag = which >> 1;
        const bool set = flag == 0 ? (nz & 0x8080) != 0 : flag == 1 ? (v & 0x80) != 0 : flag == 2 ? c != 0 : !(nz & 0xFF);
        if (set != bool(which & 1)) return;
        const u32 target = pc + u32(i32(i8(offset)));
        cycle += (pc ^ target) & 0xFF00 ? 2 : 1;
        pc = target;
        if (!(pc & 0x1000)) s.bus = u8(offset);  // A fetch outside the ROM may read the last value on the bus.
    }
    HD void jump(State& s, u32 target) {
        pc = target;
        s.bus = u8(target >> 8);
    }

    HD void step_slow(State& s, FastBus& bus, const Program& program, u32 opcode, u32 at) {
        if (opcode == POLL_CODE) return poll(s.riot, bus.give_up, program.rom + at);
        store(s);
        if (cycle > bus.give_up || bus.writes_twice()) {
            end = ABANDONED;
            return;
        }
        bus.step_slow();
        load(s);
        if (bus.frame_over) end = OVER;
    }

    // Executes a polling loop in one iteration, with reads of INTIM until the branch is not taken.
    HD void poll(Riot& riot, i32 give_up, const u8* loop) {
        const u8 load = loop[0], jump = loop[3];
        const i32 crossed = ((pc + 5) ^ pc) & 0xFF00 ? 1 : 0, period = 7 + crossed;
        for (;;) {
            cycle += 4;
            nz = riot_read(riot, 4, cycle);
            cycle += 2;
            const bool negative = nz & 0x80;
            if (jump == 0xD0 ? !nz : jump == 0x10 ? negative : !negative) break;
            if (jump == 0xD0 || (jump == 0x10 && !negative))
                cycle += period * riot_reads_before_zero(riot, u8(nz), cycle - 2, period);
            cycle += 1 + crossed;
            if (cycle <= give_up) continue;
            end = ABANDONED;
            return;
        }
        if (load == 0xAD) a = nz;
        else if (load == 0xAE) x = nz;
        else y = nz;
        pc += 5;
    }
};

}  // namespace accel
