// The bus of the fast core, which reads and writes the same State (console.h) as the plain core.
// | write of the TIA  -> at once, or into a log: log.h      read of a collision register -> looks up to now: tia.h
//
// The last value on the bus is not stored between instructions, because the fetch of the next instruction replaces it.
#pragma once
#include "../console.h"
#include "tia.h"

namespace accel {

// `Log` (WritesAtOnce or FastLog) gets the writes to the TIA, and `Chip` is the class of the TIA that applies them.
template <class Log, class Chip = FastTia>
struct Bus {
    State& s;
    Rom rom;
    u32 low, high;  // Offsets from `low` to `high` of a bank are plain ROM.
    i32 last_line;
    Chip tia;
    Log log;
    i32 deadline;  // A TIA write at or after the cycle `deadline` ends the frame.
    i32 give_up;   // The fast core gives up a frame that has not ended after `give_up` cycles.
    i32 phase;     // The frame begins at cycle `phase` of a scan line.
    bool frame_over;

    HD void insert(const Rom& inserted) {
        rom = inserted;
        low = rom.kind == CART_FE ? 0 : rom.registers;
        high = rom.kind == CART_FE ? 0x1000 : rom.hotspots;
    }

    HD void begin_frame() {
        phase = -s.tia.frame_clock / 3;
        deadline = (LINE_CLOCKS * (last_line + 1) + s.tia.frame_clock + 2) / 3;
        give_up = s.cycle + 2 * i32(MOST_INSTRUCTIONS) - 200;
        frame_over = false;
        log.begin_frame(s.tia);
    }

    HD_CALL void settle_log(i32 until) { log.settle(tia, until); }

    HD_CALL u8 read(u32 address, u32 last, i32 cycle) {
        s.cycle = cycle;
        if (address & 0x1000) return cartridge_read(s.cartridge, rom, address, s.cycle);
        if (address & 0x80) return address & 0x200 ? riot_read(s.riot, address, cycle) : s.ram[address & 0x7F];
        const u8 noise = last & 0x3F;
        const u32 reg = address & 15;
        if (reg < 8) {
            log.look(tia, 3 * cycle);
            return noise | collision_register(s.tia.collisions, reg);
        }
        if (reg < 12) return noise | (paddle_ready(s, reg - 8) ? 0x80 : 0);
        return reg < 14 ? noise | fire_input(s, reg - 12) : noise;
    }

    // Writes a byte. Returns the CPU cycle after the write, which is the end of the scan line after a write to WSYNC.
    HD_CALL i32 write(u32 address, u8 value, i32 cycle) {
        s.bus = value;
        if (address & 0x1000) cartridge_write(s.cartridge, rom, address, value);
        else if (!(address & 0x80)) return write_tia(address & 0x3F, value, cycle);
        else if (address & 0x200) riot_write(s.riot, address, value, cycle);
        else s.ram[address & 0x7F] = value;
        return cycle;
    }

    HD i32 write_tia(u32 reg, u8 value, i32 cycle) {
        if (cycle >= deadline) frame_over = true;
        if (reg == WSYNC) {
            const i32 into = i32(u32(cycle + phase) % LINE_CYCLES);
            return into ? cycle + LINE_CYCLES - into : cycle;
        }
        if (reg == VSYNC) {
            frame_over |= write_vsync(s.tia, value, 3 * cycle);
            return cycle;
        }
        if (reg == VBLANK) write_inputs(s.tia, value, cycle);
        if (reg < TIA_REGISTERS && !(reg >= AUDC0 && reg <= AUDV1)) log.add(tia, reg, value, cycle);
        return cycle;
    }

    // The bus for an instruction that the plain interpreter (instructions.h) runs.
    struct SlowBus {
        Bus& k;
        HD void tick(u32 cycles) { k.s.cycle += i32(cycles); }
        HD u8 fetch(u32 address) { return read(address); }
        HD u8 read(u32 address) { return k.s.bus = k.read(address, k.s.bus, k.s.cycle); }
        HD void write(u32 address, u8 value) { k.s.cycle = k.write(address, value, k.s.cycle); }
    };
    // Returns whether the next instruction is a BRK or JSR that pushes several bytes to the TIA in one cycle, which the
    // log cannot represent.
    HD bool writes_twice() const {
        const u32 pc = s.cpu.pc, opcode = pc & 0x1000 && (pc & 0xFFF) - low < high - low ? rom.bytes[rom_offset(pc)] : 0;
        return s.cpu.sp < 0x83 && (opcode == 0x00 || opcode == 0x20);
    }
    HD u32 rom_offset(u32 pc) const {
        if (rom.kind == CART_FE) return (pc & 0x2000 ? 0 : 0x1000) + (pc & 0xFFF);
        return s.cartridge.slice[pc >> 10 & 3] + (pc & 0x3FF);
    }
    HD_CALL void step_slow() {
        SlowBus bus{*this};
        Instruction<SlowBus>{s.cpu, bus}.step();
    }
};

}  // namespace accel
