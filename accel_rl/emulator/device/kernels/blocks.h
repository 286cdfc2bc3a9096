// The 6507 of each lane runs a game's ROM as blocks (device/blocks.py), which are the cases of a switch. All lanes of a
// warp enter the switch at the same time.
// | lane       0  1  2  3 ...
// | block     17  9  9 17      the lane with the least cycle chooses a block: the lanes at this block run it, the others wait
// | cycle     40 52 60 44      block 17: lanes 0 and 3; then block 9
//
// As in LaneCpu (cpu.h), all lanes wait for each other at the end of every scan line. A frame ends with the same State
// and log as in LaneCpu, or is given up. The plain interpreter runs instructions that are in no block, or whose operand
// a block cannot read or write.
//
// The macro BLOCKS is the path of a game's file from blocks.py, which has these lines:
// | BLOCK(n)                                                   the block n begins
// | T(offset, body, operand, static, zero, leave)              an instruction: a body of bodies.h; `leave` if a jump is taken
// | LEAVE(n, offset)                                           continues at the block n, which begins at `offset`
// | STAY(n)                                                    runs the block n, if the scan line has not ended
#pragma once
#include "../../core/fast/bodies.h"
#include "step.h"

#ifdef BLOCKS
namespace accel {

#ifdef __CUDACC__
#define BLOCK_TABLE __device__ const
#define BLOCK_INLINE __device__ __forceinline__
#define COUNT(what)
#else
#define BLOCK_TABLE static const
#define BLOCK_INLINE inline
#define COUNT(what) what++;
#endif
#ifdef MARKS  // In place of the compiler's search among the cases, block_jumps.py writes one indexed jump.
#define DISPATCH(block) asm volatile("// DISPATCH %0;" ::"r"(block));
#define CASE(n) asm volatile("// CASE %0;" ::"n"(n));
#else
#define DISPATCH(block)
#define CASE(n)
#endif

constexpr u32 NO_BLOCK = 0xFFFF;
// Reads from the file BLOCKS: BLOCK_COUNT, the cartridge's KIND, and BLOCK_OF, which maps an offset in the ROM to the
// block that begins there, or to NO_BLOCK.
#define BLOCK_TABLES
#include BLOCKS
#undef BLOCK_TABLES

HD u32 plain_rom_low() { return KIND == CART_FE ? 0 : rom_of(nullptr, KIND).registers; }
HD u32 plain_rom_high() { return KIND == CART_FE ? 0x1000 : rom_of(nullptr, KIND).hotspots; }

// Computes FastConsole::page for the game's kind of cartridge: the offset in the ROM of each page of 256 bytes, or -1.
struct Pages {
    u64 slices;  // The offsets of the cartridge's four slices have 16 bits each.

    HD i32 operator[](u32 page) const {
        const u32 first = page << 8 & 0xF00;
        if (!(page & 0x10) || first < plain_rom_low() || first + 256 > plain_rom_high()) return -1;
        if (KIND == CART_2K) return i32(first & 0x7FF);
        if (KIND == CART_4K) return i32(first);
        if (KIND == CART_FE) return i32(first + (page & 0x20 ? 0 : 0x1000));
        if (KIND == CART_E0) return i32(u32(slices >> (first >> 6 & 48) & 0xFFFF) + (first & 0x300));
        return i32(u32(slices & 0xF000) + first);
    }
};

// The console, as the macros of bodies.h expect it under the name `k`.
struct BlockConsole {
    FastBus& bus;
    FastLog& log;
    bool& frame_over;
    const Pages page;

    HD u8 read(u32 address, u32 last, i32 cycle) { return bus.read(address, last, cycle); }
    HD i32 write(u32 address, u8 value, i32 cycle) { return bus.write(address, value, cycle); }
    HD u32 rom_offset(u32 address) const { return bus.rom_offset(address); }
};

// Outside blocks, and at the end of a frame, the 6507's program counter is pc - zero.
struct BlockCpu : LaneRegisters {
    u32 zero, block;
    i32 line;                  // WSYNC last waited for the scan line that begins at cycle `line`.
    u32 iterations, slow = 0;  // The host build counts instructions, and those of the plain interpreter.

    HD void store(State& s) const {
        LaneRegisters::store(s);
        s.cpu.pc = u16(pc - zero);
    }

    HD void begin_frame(State& s) {
        load(s);
        line = s.tia.frame_clock / 3;
        line_end = cycle + LINE_CYCLES;
        end = RUNNING;
        go(s, s.cpu.pc, s.bus);
    }
    // Continues at an address. If no chip responds at this address, the fetched byte is the last value on the bus,
    // `carried`.
    HD void go(State& s, u32 address, u32 carried) {
        i32 offset = Pages{slices}[address >> 8 & 63];
        if (offset < 0) {
            if (!(address & 0x1000)) {
                s.bus = u8(carried);
                pc = address, zero = 0, block = NO_BLOCK;
                return;
            }
            offset = i32((slices >> (address >> 6 & 48) & 0xFFFF) + (address & 0x300));  // not of an FE, whose pages are plain
        }
        pc = u32(offset) + (address & 0xFF);
        zero = u32(offset) - (address & 0xFF00);
        block = BLOCK_OF[pc];
    }

    HD bool goes() const { return end == RUNNING && cycle < line_end; }
    HD void run_slow(State& s, FastBus& bus) {
        COUNT(slow)
        store(s);
        run_plain(s, bus);
        if (end != ABANDONED) go(s, s.cpu.pc, s.bus);
    }

    // clang-format off
#undef DECIMAL
#define DECIMAL(function) { \
    m = decimal_result(a, m, c, SUBTRACTS_##function); a = m & 255; c = m >> 8 & 1; v = m >> 16; nz = (m & 0x8000) | (m >> 16 & 1); }
#define SUBTRACTS_cpu_adc false
#define SUBTRACTS_cpu_sbc true
#define NEXT(n) break;
#define TAKE { taken = true; break; }
#define JUMP(to, carried) { if (IS_STATIC) { zero = ZERO; TAKE } GO(to, carried) }
#define GO(to, carried) { address = (to); m = u32(carried); goto dynamic; }
#define SLOWLY { pc = HERE; goto slowly; }
#define END_FRAME(n) { pc = HERE + n; end = OVER; goto done; }
#define WRITE_TIA(reg, value) k.log.writes[k.log.count++] = FastWrite::of(cycle, reg, (value) & 255);
#define LEAVE(to, at) { block = to; if (to == NO_BLOCK) pc = at; goto done; }
#define STAY(to) { if (cycle < line_end) goto B_##to; block = to; goto done; }
#define BLOCK(n) case n: CASE(n) goto B_##n; B_##n:
#define T(offset_, body, operand, is_static, to_zero, leave) { \
    [[maybe_unused]] constexpr u32 HERE = offset_, ARG = operand, ZERO = to_zero; [[maybe_unused]] constexpr bool IS_STATIC = is_static; \
    bool taken = false; COUNT(iterations) do { body } while (0); if (taken) leave }
    // clang-format on

    // Runs the block `now`. If `now` is NO_BLOCK, the plain interpreter runs one instruction.
    BLOCK_INLINE void run_block(State& s, FastBus& bus, u32 now) {
        u8* const ram = s.ram;
        const u8* const rom = bus.rom.bytes;
        const u32 low = plain_rom_low(), span = plain_rom_high() - low;
        const i32 deadline = bus.deadline, give_up = bus.give_up;
        BlockConsole k{bus, bus.log, bus.frame_over, Pages{slices}};
        u32 m, address;
        i32 offset;
        DISPATCH(now)
        switch (now) {
#include BLOCKS
            default: CASE(BLOCK_COUNT) COUNT(iterations) goto slowly;
        }
    gave_up:
        end = ABANDONED;
        goto done;
    dynamic:
        go(s, address, m);
        goto done;
    slowly:
        run_slow(s, bus);
    done:;
    }
};

// A lane whose 6507 is a BlockCpu.
class BlockLane : public LaneOf<BlockCpu> {
  public:
    using LaneOf<BlockCpu>::LaneOf;

    HD BlockCpu& cpu() { return cpu_; }
    HD bool end_line(BlockCpu& cpu) const { return cpu.end_line(bus_); }
    BLOCK_INLINE void run_block(BlockCpu& cpu, u32 now) { cpu.run_block(env_.play.state, bus_, now); }
};

}  // namespace accel
#endif
