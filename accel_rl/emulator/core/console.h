// The console has a bus of 13 address lines, and executes one frame at a time.
// | A12  A9  A7
// |  1    -   -     cartridge
// |  0    -   0     TIA        writes by A5-A0, reads by A3-A0
// |  0    0   1     RAM        128 bytes, also the stack
// |  0    1   1     RIOT       timer and ports
//
// | frame      ... | VSYNC cleared, 228 clocks or more after it was set | ... one update of the machine ...
// | or ends at     a TIA write after the last line of the format, or after 25,000 instructions: then it is partial,
// |                and the next update continues it
//
// `cycle` counts CPU cycles from the frame's start. `tia.frame_clock` is the colour clock at which scan line 0 begins.
#pragma once
#include "cartridge.h"
#include "instructions.h"
#include "riot.h"
#include "tia_settle.h"

namespace accel {

constexpr i32 LINE_CYCLES = 76;
constexpr i32 NTSC_LAST_LINE = 290, PAL_LAST_LINE = 342;
constexpr u32 MOST_INSTRUCTIONS = 25000;
// If a program never ends its frame, a new frame begins after MOST_CYCLES CPU cycles, so that `cycle` cannot overflow.
constexpr i32 MOST_CYCLES = 1 << 26;

struct State {
    u8 ram[128];
    Cpu cpu;
    Riot riot;
    Tia tia;
    Cartridge cartridge;
    i32 cycle;
    u32 partial;    // The flag is 1 if the last update of the console ended within a frame.
    i32 paddle[4];  // Each paddle port has a resistance in ohms, or a negative number without a paddle.
    u8 fire[2];     // An entry is 1 if the fire button INPT4 or INPT5 is pressed.
    u8 bus;         // `bus` is the last value on the data bus.
    u8 odd_frame;   // `odd_frame` is the index (0 or 1) of the picture into which the current frame is drawn.
};
static_assert(sizeof(State) < 1024, "one environment's state stays under 1 KB");

// Returns whether a paddle's capacitor is charged up to the threshold, which takes a time in proportion to the paddle's
// resistance.
HD bool paddle_ready(const State& s, u32 i) {
    if (s.tia.dumped || s.paddle[i] < 0) return false;
    return s.cycle - s.tia.dump_cycle > i32(1.6e-8 * s.paddle[i] * 1.19e6);
}

// INPT4 and INPT5 are low while the players' fire buttons are pressed. A real TIA latches INPT4 and INPT5 if bit 6 of
// VBLANK is set, but ale-py ignores this bit.
HD u8 fire_input(const State& s, u32 port) { return s.fire[port] ? 0 : 0x80; }

// Handles a write to the register VSYNC, and returns whether the write ends the frame.
HD bool write_vsync(Tia& t, u8 value, i32 clock) {
    if (value & 2) {
        t.vsync_clock = clock + LINE_CLOCKS;
        return false;
    }
    if (clock < t.vsync_clock) return false;
    t.vsync_clock = NEVER;
    return true;
}

HD void write_inputs(Tia& t, u8 value, i32 cycle) {
    if (t.dumped && !(value & 0x80)) t.dump_cycle = cycle;
    t.dumped = value >> 7;
}

// Starts a frame: subtracts the CPU cycles of the last frame from all stored times, which count from the frame's start.
HD void begin_clocks(State& s, i32 last_line) {
    const i32 cycles = s.cycle, clocks = 3 * s.cycle;
    const i32 phase = line_clock(s.tia, clocks);
    s.tia.colour_loss = last_line > NTSC_LAST_LINE ? line_number(s.tia, clocks) & 1 : 0;
    s.cycle = 0;
    s.riot.set_cycle = i32(u32(s.riot.set_cycle) - u32(cycles));
    s.cartridge.dpc.voice_cycle = i32(u32(s.cartridge.dpc.voice_cycle) - u32(cycles));
    s.tia.dump_cycle = rebased(s.tia.dump_cycle, cycles);
    s.tia.hmove_clock = rebased(s.tia.hmove_clock, clocks);
    if (s.tia.vsync_clock != NEVER) s.tia.vsync_clock = rebased(s.tia.vsync_clock, clocks);
    s.tia.frame_clock = -phase;
    s.tia.settled = -phase;
    s.odd_frame ^= 1;
}

struct Console {
    State& s;
    Rom rom;
    Picture picture;
    i32 last_line;  // A TIA write after the scan line last_line ends the frame.
    TiaLog& log;
    bool frame_over;

    HD void tick(u32 cycles) { s.cycle += i32(cycles); }

    HD u8 fetch(u32 address) {
        const u32 offset = address & 0xFFF;
        if (address & 0x1000 && offset < rom.hotspots && offset >= rom.registers)
            return s.bus = rom.bytes[s.cartridge.slice[offset >> 10] + (offset & 0x3FF)];
        return read(address);
    }

    HD_CALL u8 read(u32 address) {
        u8 value;
        if (address & 0x1000) value = cartridge_read(s.cartridge, rom, address, s.cycle);
        else if (!(address & 0x80)) value = read_tia(address & 15);
        else if (address & 0x200) value = riot_read(s.riot, address, s.cycle);
        else value = s.ram[address & 0x7F];
        return s.bus = value;
    }

    HD_CALL void write(u32 address, u8 value) {
        if (address & 0x1000) cartridge_write(s.cartridge, rom, address, value);
        else if (!(address & 0x80)) write_tia(address & 0x3F, value);
        else if (address & 0x200) riot_write(s.riot, address, value, s.cycle);
        else s.ram[address & 0x7F] = value;
        s.bus = value;
    }

    // A read of a TIA register sets only bits 7 and 6 of the bus, whose other bits keep their last values.
    HD u8 read_tia(u32 reg) {
        const u8 noise = s.bus & 0x3F;
        if (reg < 8) {
            settle(s.tia, log, picture, 3 * s.cycle);
            return noise | collision_register(s.tia.collisions, reg);
        }
        if (reg < 12) return noise | (paddle_ready(s, reg - 8) ? 0x80 : 0);
        return reg < 14 ? noise | fire_input(s, reg - 12) : noise;
    }

    HD void write_tia(u32 reg, u8 value) {
        const i32 clock = 3 * s.cycle;
        if (line_number(s.tia, clock) > last_line) frame_over = true;
        if (reg == WSYNC) {
            const i32 into = line_clock(s.tia, clock) / 3;
            if (into) s.cycle += LINE_CYCLES - into;
        } else if (reg == VSYNC) {
            frame_over |= write_vsync(s.tia, value, clock);
        } else if (reg == VBLANK) {
            write_inputs(s.tia, value, s.cycle);
        }
        if (reg >= TIA_REGISTERS) return;
        if (log.count == TiaLog::SIZE) settle_writes(s.tia, log, picture);
        log.writes[log.count++] = TiaWrite{clock, u8(reg), value};
    }

    // Runs the console until the current frame ends, or until MOST_INSTRUCTIONS instructions have run. Frames are drawn
    // alternately into two pictures, so that lines below a short frame show the frame before the last.
    // `before(console)` is called before each instruction, for traces.
    struct Untraced {
        HD void operator()(const Console&) const {}
    };
    template <class Before = Untraced>
    HD void run_frame(u8* pictures, bool wanted, Before before = Before{}) {
        if (!s.partial || s.cycle > MOST_CYCLES) start_frame();
        picture.pixels = wanted ? pictures + (s.odd_frame ? picture.height * WIDTH : 0) : nullptr;
        frame_over = false;
        Instruction<Console> instruction{s.cpu, *this};
        for (u32 n = 0; n < MOST_INSTRUCTIONS && !frame_over; n++) {
            before(*this);
            instruction.step();
        }
        s.partial = !frame_over;
        if (frame_over) settle(s.tia, log, picture, 3 * s.cycle);
        else settle_writes(s.tia, log, picture);
    }

    HD void start_frame() { begin_clocks(s, last_line); }

    // Resets the console as a power cycle does, but keeps the RAM. The RIOT's timer is set to `timer`.
    HD void reset(u8 timer) {
        s.cycle = 0;
        s.bus = 0;
        s.partial = 0;
        log.count = 0;
        cartridge_reset(s.cartridge, rom);
        riot_reset(s.riot, timer);
        s.tia = Tia{};
        s.tia.vsync_clock = NEVER;
        s.tia.hmove_clock = LONG_AGO;
        s.cpu = Cpu{};
        s.cpu.sp = 0xFF;
        s.cpu.z = 1;
        const u32 low = read(0xFFFC);
        s.cpu.pc = u16(low | u32(read(0xFFFD)) << 8);
    }
};

}  // namespace accel
