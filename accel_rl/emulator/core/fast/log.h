// The fast core ignores writes to the TIA that change nothing. On a CPU, writes that change the TIA are applied
// immediately. On a GPU, the writes of a whole frame are logged, and another kernel draws the picture from the log.
// | write -> the register's last value again? -- yes --> nothing
// |                                           -- no  --> the TIA, or the log: cycle, register, value
//
// `last` maps each register to its last value, or to one of two marks, which ensure that the next write is not ignored:
// | ALWAYS   the register does something whenever it is written (RESPx, HMOVE, CTRLPF by when, NUSIZ0 among stars ...)
// | ONCE     the same value would do something now: GRP0 and GRP1 hand on each other's, ENABL's goes with GRP1's, and
// |          NUSIZx shows a player that was just reset
#pragma once
#include "../tia.h"

namespace accel {

// A frame of the fast core has fewer than 2^18 cycles, because the plain core runs longer frames.
struct FastWrite {
    u32 packed;

    HD static FastWrite of(i32 cycle, u32 reg, u32 value) { return FastWrite{u32(cycle) << 14 | reg << 8 | value}; }
    HD i32 cycle() const { return i32(packed >> 14); }
    HD u32 reg() const { return packed >> 8 & 63; }
    HD u8 value() const { return u8(packed); }
};

struct LastWrites {
    static constexpr u16 ALWAYS = 256, ONCE = 512;
    u16 last[64];

    // Sets `last` from the TIA's registers at the start of a frame.
    HD void begin_frame(const Tia& t) {
        for (u16& value : last) value = ALWAYS;
        for (u32 i = 0; i < 4; i++) last[COLUP0 + i] = t.colour[i];
        for (u32 i = 0; i < 5; i++) last[HMP0 + i] = u16(t.hm[i] << 4);
        for (u32 i = 0; i < 2; i++) {
            last[NUSIZ0 + i] = t.nusiz[i] | ONCE;
            last[REFP0 + i] = u16(t.refp[i] << 3);
            last[GRP0 + i] = t.grp[i] | ONCE;
            last[ENAM0 + i] = u16(t.enam[i] << 1);
            last[RESMP0 + i] = u16(t.resmp[i] << 1);
        }
        if (t.stars) last[NUSIZ0] = ALWAYS;
        for (u32 i = 0; i < 3; i++) last[VDELP0 + i] = t.vdel[i];
        last[ENABL] = u16(t.enabl << 1);
        for (u32 i = 0; i < 3; i++) last[PF0 + i] = ONCE;
    }

    // Returns whether writes to a register only store a value (HMM0 is included, although its writes may start stars).
    HD static bool simple(u32 reg) { return reg < TIA_REGISTERS && 0x3FB'6000'FBC0ull >> reg & 1; }

    HD_FOLD void keep(u32 reg, u32 value) {
        const u32 old = last[reg];
        if (old & ALWAYS) {
            if (reg == RESP0 || reg == RESP1) last[NUSIZ0 + reg - RESP0] |= ONCE;
            if (reg == HMCLR)
                for (u32 i = 0; i < 5; i++) last[HMP0 + i] = 0;
            return;
        }
        last[reg] = u16(value);
        if ((old & 255) == value) return;
        if (reg == HMM0 && (old >> 4 & 15) == 7 && value >> 4 == 6) last[NUSIZ0] = ALWAYS;
        if (reg == GRP0 || reg == ENABL) last[GRP1] |= ONCE;
        else if (reg == GRP1) last[GRP0] |= ONCE;
    }
};

// Applies each write to the TIA immediately. `Chip` is FastTia.
struct WritesAtOnce : LastWrites {
    template <class Chip>
    HD void add(Chip& tia, u32 reg, u32 value, i32 cycle) {
        if (last[reg] == value) return;
        tia.write(reg, u8(value), 3 * cycle);
        keep(reg, value);
    }
    template <class Chip>
    HD void settle(Chip& tia, i32 until) {
        tia.settle_until(until);
    }
    template <class Chip>
    HD void look(Chip& tia, i32 until) {
        tia.look_until(until);
    }
};

// Records the writes to the TIA in a frame. settle_writes applies them later.
struct FastLog : LastWrites {
    FastWrite* writes;
    u32 count, settled;  // The log has `count` writes, and the TIA's state contains the first `settled` writes.
    bool looked;         // The TIA has computed collisions since settle_writes was called.

    HD void begin_frame(const Tia& t) {
        count = settled = 0;
        looked = false;
        LastWrites::begin_frame(t);
    }
    template <class Chip>
    HD void add(Chip&, u32 reg, u32 value, i32 cycle) {
        if (last[reg] == value) return;
        writes[count++] = FastWrite::of(cycle, reg, value);
        keep(reg, value);
    }
    // Applies the logged writes to the TIA, and computes collisions up to the last write.
    template <class Chip>
    HD void settle_writes(Chip& tia) {
        tia.settle_writes(writes + settled, count - settled);
        settled = count;
        looked = false;
    }
    template <class Chip>
    HD void settle(Chip& tia, i32 until) {
        tia.settle(writes + settled, count - settled, until);
        settled = count;
        looked = true;
    }
    template <class Chip>
    HD void look(Chip& tia, i32 until) {
        settle(tia, until);
    }
};

}  // namespace accel
