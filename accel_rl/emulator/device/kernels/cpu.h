// The 6507 of one lane, which runs instructions up to the end of a scan line, each as a sequence of stages (stages.h).
// | lanes     0  line 17 ......|        line 18 ...
// |           1  line 17 ..|   |        line 18 ......      all lanes meet at the end of every scan line, so that they
// |           2  line 17 ....| |        line 18 ....        run the same part of the program at the same time
//
// A frame ends with the same State and log of TIA writes as in run_fast (core/fast/cpu.h), or is given up. The plain
// interpreter runs instructions that have no stages.
#pragma once
#include "../../core/fast/console.h"
#include "settle.h"
#include "stages.h"

namespace accel {

constexpr u8 POLL_CODE = 0x02;     // POLL_CODE marks LDA, LDX or LDY INTIM with a branch back to the load.
constexpr u8 UNDOCUMENTED = 0x12;  // UNDOCUMENTED replaces the opcode 0x02 if a ROM contains 0x02.

// A ROM, and a copy in which polling loops are marked. `rom` and `code` are two bytes longer than the ROM.
struct Program {
    const u8* rom;
    const u8* code;  // In `code`, the first byte of each polling loop is POLL_CODE.
    const Stages* stages;
};

enum FrameEnd : u32 { RUNNING, OVER, ABANDONED };

constexpr u32 MOST_LOGGED = 1536;  // The log has room for 1,536 writes; a frame of the 57 games has at most 1,061 writes.

// Which offsets of a bank are plain ROM: `low` to `high` - 1. If `far_banks` is true, bit 13 of an address selects the
// bank.
struct PlainRom {
    u32 low, high;
    bool far_banks;
};

// Adds or subtracts in decimal mode, which is rare. Returns the register A and the flags C, N, Z and V as bits 0-7, 8,
// 15, 16 and 23.
HD_CALL u32 decimal_result(u32 a, u32 m, u32 c, bool subtracts) {
    Cpu cpu{};
    cpu.a = u8(a), cpu.c = u8(c), cpu.d = 1;
    if (subtracts) cpu_sbc(cpu, u8(m));
    else cpu_adc(cpu, u8(m));
    return cpu.a | u32(cpu.c) << 8 | u32(cpu.n & 0x80) << 8 | u32(cpu.z != 0) << 16 | u32(cpu.v) << 23;
}

// On a CPU, counts a lane's iterations of the instruction loop for measurements. Each bit of `slow` is an iteration of
// the current scan line, and is 1 if the plain interpreter ran the instruction.
#ifdef __CUDA_ARCH__
struct LaneCounts {
    HD void begin_line() {}
    HD void add(bool) {}
};
#else
struct LaneCounts {
    u32 iterations = 0, line = 0;
    u64 slow = 0;

    HD void begin_line() { line = iterations, slow = 0; }
    HD void add(bool is_slow) { slow |= u64(is_slow) << (iterations++ - line); }
};
#endif

// The registers of a lane's 6507, and its position in the frame.
struct LaneRegisters {
    u32 a, x, y, sp, nz, c, v, d, pc;
    i32 cycle, line_end;
    u32 end;
    u64 slices;  // The offsets of the cartridge's four slices have 16 bits each.

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
    // Ends the scan line, and returns whether the frame continues.
    HD bool end_line(const FastBus& bus) {
        line_end += LINE_CYCLES;
        if (end == OVER && cycle > bus.give_up + 100) end = ABANDONED;
        if (end == RUNNING && (cycle > bus.give_up || bus.log.count + LINE_CYCLES > MOST_LOGGED)) end = ABANDONED;
        return end == RUNNING;
    }
    // Runs the next instruction by the plain interpreter on the state `s`, or gives up the frame.
    HD void run_plain(State& s, FastBus& bus) {
        if (cycle > bus.give_up || bus.writes_twice()) {
            end = ABANDONED;
            return;
        }
        bus.step_slow();
        load(s);
        if (bus.frame_over) end = OVER;
    }
};

struct LaneCpu : LaneRegisters {
    LaneCounts counts;

    HD void begin_frame(const State& s) {
        load(s);
        line_end = cycle + LINE_CYCLES;
        end = RUNNING;
    }

    // Returns the ROM offset of an address, or -1 if the address is not plain ROM.
    HD i32 offset_of(const PlainRom& plain, u32 address) const {
        if (!(address & 0x1000) || (address & 0xFFF) - plain.low >= plain.high - plain.low) return -1;
        const u32 bank = plain.far_banks && !(address & 0x2000) ? 0x1000 : 0;
        return i32(u32(slices >> (address >> 6 & 48) & 0xFFFF) + (address & 0x3FF) + bank);
    }

    // Runs the 6507 to the end of the scan line, and returns whether the frame continues. The loop works on a copy of
    // *this, whose address is passed to no function, so that a GPU keeps the copy in registers.
    HD bool run_line(State& s, FastBus& bus, const Program& program) {
        const PlainRom plain{bus.low, bus.high, bus.rom.kind == CART_FE};
        LaneCpu cpu = *this;
        cpu.counts.begin_line();
        while (cpu.end == RUNNING && cpu.cycle < cpu.line_end) cpu.counts.add(cpu.step(s, bus, plain, program));
        const bool continues = cpu.end_line(bus);
        *this = cpu;
        return continues;
    }

    // Runs an instruction, and returns whether the plain interpreter ran it.
    HD bool step(State& s, FastBus& bus, const PlainRom& plain, const Program& program) {
        u8* const ram = s.ram;
        // the instruction's bytes
        const i32 here = offset_of(plain, pc);
        u32 opcode = 0, b1 = 0, b2 = 0;
        Stages stages{0};
        if (here >= 0 && ((pc & 255) <= 253 || offset_of(plain, pc + 2) == here + 2)) {
            opcode = program.code[here], b1 = program.rom[here + 1], b2 = program.rom[here + 2];
            if (opcode == POLL_CODE) return poll(s.riot, bus.give_up, program.rom + here);
            stages = program.stages[opcode];
        } else if (const u32 at = pc & 0x7F; in_ram(pc) && at < RAM_CODE) {
            opcode = ram[at], b1 = ram[at + 1], b2 = ram[at + 2];
            if (opcode != POLL_CODE) stages = program.stages[opcode];
        }

        // the operand's address
        const u32 mode = stages.mode(), work = stages.work();
        bool slow = work == WORK_SLOW || (pc & 0xFFF) + stages.length() > (pc & 0x1000 ? plain.high : 0xFFF);
        u32 address = b1, base = b1 | b2 << 8, m = b1;
        if (mode == MODE_ZX || mode == MODE_IX) address = (b1 + x) & 255;
        if (mode == MODE_ZY) address = (b1 + y) & 255;
        if (mode == MODE_IY || mode == MODE_IX) {
            slow |= address < 0x80 || address == 0xFF;
            base = word(ram, address);
        }
        if (mode >= MODE_AB && mode <= MODE_IX) {
            const u32 index = mode == MODE_AX ? x : mode == MODE_AB || mode == MODE_IX ? 0 : y;
            address = (base + index) & 0xFFFF;
        }
        if (mode == MODE_PUSH) address = sp;
        if (mode == MODE_PULL) address = 0x100 | ((sp + 1) & 0xFF);

        const bool to_ram = (address & 0x1280) == 0x80;
        const i32 there = offset_of(plain, address);
        slow |= work >= WORK_JMP && !jumps(work, stages.extra(), address);
        if (slow) {
            store(s);
            run_plain(s, bus);
            return true;
        }

        // read
        cycle += stages.cycles();
        if (stages.counts_pages() && (base ^ address) & 0xFF00) cycle++;
        const bool switches = address & 0x1000 && there < 0;  // a cartridge's registers, or a switch of banks
        if (stages.reads()) {
            if (to_ram) m = ram[address & 0x7F];
            else if (there >= 0) m = program.rom[there];
            else {
                u32 last = mode >= MODE_AB ? base >> 8 : b1;
                if (mode == MODE_PULL) last = bus.read(0x100 | sp, opcode, cycle);  // A pull first reads the old address.
                m = bus.read(address, last, cycle);
                if (switches) map(s.cartridge);
            }
        }

        const u32 from = stages.left(), carry_in = stages.carry_in() == CARRY_C ? c : stages.carry_in();
        const u32 left = from == IN_A       ? a
                         : from == IN_X     ? x
                         : from == IN_Y     ? y
                         : from == IN_SP    ? sp
                         : from == IN_FLAGS ? flags(s.cpu.i)
                                            : m;
        u32 result = left, carry = c, signs = 0;
        pc += stages.length();
        switch (work) {
            case WORK_OR: result = left | m; break;
            case WORK_AND: result = left & m; break;
            case WORK_EOR: result = left ^ m; break;
            case WORK_ADD: {
                if (d && stages.extra() == RIGHT_DECIMAL) {
                    signs = decimal_result(left, m, c, stages.inverts());
                    result = signs & 0xFF, carry = signs >> 8 & 1, v = signs >> 16;
                    break;
                }
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
            case WORK_FLAG: set_flag(s, stages.extra()); break;
            case WORK_BRANCH: branch(s, stages.extra(), b1); break;
            case WORK_JSR:
                pc -= stages.extra() == JUMP_PLAIN;
                push(ram, pc >> 8);
                push(ram, pc);
                if (stages.extra() == JUMP_BRK) {
                    push(ram, flags(s.cpu.i));
                    s.cpu.i = 1;
                    base = bus.read(0xFFFE, 0, cycle);
                    base |= u32(bus.read(0xFFFF, 0, cycle)) << 8;
                }
                jump(s, base);
                break;
            case WORK_JMP: jump(s, stages.extra() == JUMP_INDIRECT ? word(ram, base) : base); break;
            case WORK_RTS: {
                const u32 back = word(ram, sp + 1 + (stages.extra() == JUMP_RTI));
                if (stages.extra() == JUMP_RTI) set_flags(s, ram[++sp & 0x7F]);
                jump(s, back);
                pc += stages.extra() == JUMP_PLAIN;
                sp += 2;
                break;
            }
            default: break;
        }
        pc &= 0xFFFF;

        // results
        const u32 target = stages.target();
        if (stages.sets_nz()) nz = signs ? (signs & 0x8000) | (signs >> 16 & 1) : result;
        if (stages.sets_c()) c = carry;
        if (target == IN_A) a = result;
        if (target == IN_X) x = result;
        if (target == IN_Y) y = result;
        if (target == IN_SP) sp = result;
        if (target == IN_FLAGS) set_flags(s, result);
        if (mode == MODE_PUSH || mode == MODE_PULL) sp = (sp + (mode == MODE_PULL ? 1 : 0xFF)) & 0xFF;
        if (!stages.writes()) return false;
        if (to_ram) {
            ram[address & 0x7F] = u8(result);
            return false;
        }
        cycle = bus.write(address, u8(result), cycle);
        if (switches) map(s.cartridge);
        if (bus.frame_over) end = OVER;
        return false;
    }

    // Returns whether the stack and the indirect target of a jump are in the RAM.
    HD bool jumps(u32 work, u32 kind, u32 address) const {
        if (work == WORK_JSR) return sp >= (kind == JUMP_BRK ? 0x83 : 0x81);
        if (work == WORK_RTS) return sp >= 0x80 && sp <= (kind == JUMP_RTI ? 0xFC : 0xFD);
        return kind == JUMP_PLAIN || (in_ram(address) && (address & 0xFF) != 0xFF);
    }
    HD static u32 word(const u8* ram, u32 at) { return ram[at & 0x7F] | u32(ram[(at + 1) & 0x7F]) << 8; }
    HD void push(u8* ram, u32 value) {
        ram[sp & 0x7F] = u8(value);
        sp--;
    }
    HD u32 flags(u32 i) const {
        return (nz & 0x8080 ? 0x80 : 0) | (v & 0x80) >> 1 | 0x30 | d << 3 | i << 2 | (nz & 0xFF ? 0 : 2) | c;
    }
    HD void set_flags(State& s, u32 set) {
        nz = (set & 0x80) << 8 | (set & 2 ? 0 : 1);
        v = set << 1;
        d = set >> 3 & 1;
        s.cpu.i = set >> 2 & 1;
        c = set & 1;
    }
    HD void set_flag(State& s, u32 flag) {
        if (flag == CLEAR_C || flag == SET_C) c = flag == SET_C;
        if (flag == CLEAR_D || flag == SET_D) d = flag == SET_D;
        if (flag == CLEAR_V) v = 0;
        if (flag == CLEAR_I || flag == SET_I) s.cpu.i = flag == SET_I;
    }
    // Executes a branch. `which` is the flag (N, V, C, Z), and in its lowest bit the value of the flag with which the
    // branch is taken.
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

    // Executes a loop that polls the timer: reads INTIM until the branch is not taken.
    HD bool poll(Riot& riot, i32 give_up, const u8* loop) {
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
            return false;
        }
        if (load == 0xAD) a = nz;
        else if (load == 0xAE) x = nz;
        else y = nz;
        pc += 5;
        return false;
    }
};

}  // namespace accel
