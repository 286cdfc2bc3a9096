// The decoded ROM is an array with one word per byte of the ROM: the instruction that begins at this byte, and its
// operand.
// | bits 31 ............ 16 15 ...... 0
// |      operand            FastOp = instruction x place
//
// | place   the operand is                               operand
// | _IM     immediate                                    the value
// | _RZ     zero page, RAM                               0-127, into the RAM
// | _GZ     zero page, TIA: through the bus              address
// | _IX     (zero page,X)                                address
// | _GA     absolute, not at a bank switch: the bus      address
// | _ZX _ZY zero page, indexed                           address
// | _RX _RY absolute, indexed, in the ROM for any index  offset in the ROM
// | _AX _AY absolute, indexed, elsewhere                 address
// | _IY     (zero page),Y with the pointer in RAM        0-126, into the RAM
// | _TZ     zero page store, a TIA register that is its value   register
// | _TS     zero page store, another TIA register        register
// | _WS     zero page store, WSYNC
//
// SLOW marks an instruction that the plain interpreter executes, such as a rare instruction. POLL is a loop that waits
// for the timer: LDA, LDX or LDY of INTIM, and a branch back to this load. RAM marks the words of the 128 bytes of RAM,
// which follow the words of the ROM. Instructions in RAM are decoded when they are executed.
//
// The interpreter stores the difference between an instruction's address and its offset in the ROM: a multiple of 256,
// which only jumps change, because a branch to another bank is SLOW.
#pragma once
#include "../cartridge.h"
#include "log.h"

namespace accel {

// clang-format off
#define FAST_ALU(X, n) \
    X(READ_IM, n##_IM, n) X(READ_RZ, n##_RZ, n) X(READ_GZ, n##_GZ, n) X(READ_GA, n##_GA, n) X(READ_ZX, n##_ZX, n) X(READ_RX, n##_RX, n) \
    X(READ_AX, n##_AX, n) X(READ_RY, n##_RY, n) X(READ_AY, n##_AY, n) X(READ_IY, n##_IY, n) X(READ_IX, n##_IX, n)
#define FAST_COMPARE(X, n) X(READ_IM, n##_IM, n) X(READ_RZ, n##_RZ, n) X(READ_GZ, n##_GZ, n) X(READ_GA, n##_GA, n)
#define FAST_STORE(X, n) \
    X(STORE_RZ, n##_RZ, n) X(STORE_TZ, n##_TZ, n) X(STORE_TS, n##_TS, n) X(STORE_WS, n##_WS, n) X(STORE_GZ, n##_GZ, n) X(STORE_GA, n##_GA, n)
#define FAST_MODIFY(X, n) X(MODIFY_RZ, n##_RZ, n) X(MODIFY_ZX, n##_ZX, n) X(MODIFY_GZ, n##_GZ, n) X(MODIFY_GA, n##_GA, n)
#define FAST_SHIFT(X, n) FAST_MODIFY(X, n) X(SHIFT_A, n##_A, n)
#define FAST_IMPLIED(X, n) X(IMPLY, n, n)
#define FAST_BRANCH(X, n) X(BRANCH, n, n)
#define FAST_SPECIAL(X, n) X(n, n, n)
// FAST_OPS expands X(body, instruction with place, instruction) for each fast instruction, in the order of FastOp.
#define FAST_OPS(X) \
    FAST_SPECIAL(X, SLOW) FAST_SPECIAL(X, RAM) FAST_SPECIAL(X, POLL) FAST_SPECIAL(X, JMP) FAST_SPECIAL(X, JMI) FAST_SPECIAL(X, JSR) FAST_SPECIAL(X, RTS) \
    FAST_SPECIAL(X, BRK) FAST_SPECIAL(X, RTI) FAST_SPECIAL(X, PHA) FAST_SPECIAL(X, PHP) FAST_SPECIAL(X, PLA) FAST_SPECIAL(X, PLP) \
    FAST_ALU(X, ORA) FAST_ALU(X, AND) FAST_ALU(X, EOR) FAST_ALU(X, ADC) FAST_ALU(X, LDA) FAST_ALU(X, CMP) FAST_ALU(X, SBC) \
    FAST_COMPARE(X, LDX) X(READ_ZY, LDX_ZY, LDX) X(READ_RY, LDX_RY, LDX) X(READ_AY, LDX_AY, LDX) \
    FAST_COMPARE(X, LDY) X(READ_ZX, LDY_ZX, LDY) X(READ_RX, LDY_RX, LDY) X(READ_AX, LDY_AX, LDY) \
    FAST_COMPARE(X, CPX) FAST_COMPARE(X, CPY) X(READ_RZ, BIT_RZ, BIT) X(READ_GZ, BIT_GZ, BIT) X(READ_GA, BIT_GA, BIT) \
    FAST_STORE(X, STA) X(STORE_ZX, STA_ZX, STA) X(STORE_AX, STA_AX, STA) X(STORE_AY, STA_AY, STA) X(STORE_IY, STA_IY, STA) \
    FAST_STORE(X, STX) X(STORE_ZY, STX_ZY, STX) FAST_STORE(X, STY) X(STORE_ZX, STY_ZX, STY) \
    FAST_MODIFY(X, INC) FAST_MODIFY(X, DEC) FAST_SHIFT(X, ASL) FAST_SHIFT(X, LSR) FAST_SHIFT(X, ROL) FAST_SHIFT(X, ROR) \
    FAST_BRANCH(X, BPL) FAST_BRANCH(X, BMI) FAST_BRANCH(X, BVC) FAST_BRANCH(X, BVS) \
    FAST_BRANCH(X, BCC) FAST_BRANCH(X, BCS) FAST_BRANCH(X, BNE) FAST_BRANCH(X, BEQ) \
    FAST_IMPLIED(X, NOP) FAST_IMPLIED(X, CLC) FAST_IMPLIED(X, SEC) FAST_IMPLIED(X, CLI) FAST_IMPLIED(X, SEI) FAST_IMPLIED(X, CLV) \
    FAST_IMPLIED(X, CLD) FAST_IMPLIED(X, SED) FAST_IMPLIED(X, DEY) FAST_IMPLIED(X, INY) FAST_IMPLIED(X, DEX) FAST_IMPLIED(X, INX) \
    FAST_IMPLIED(X, TXA) FAST_IMPLIED(X, TYA) FAST_IMPLIED(X, TAY) FAST_IMPLIED(X, TAX) FAST_IMPLIED(X, TSX) FAST_IMPLIED(X, TXS)
// clang-format on

enum FastOp : u16 {
#define FAST_ENUM(body, fast, name) FAST_##fast,
    FAST_OPS(FAST_ENUM)
#undef FAST_ENUM
        FAST_OP_COUNT
};

constexpr u32 MOST_ROM = 16384;
constexpr u32 RAM_CODE = 125;  // Up to here, an instruction and the next opcode are in RAM.
constexpr u32 RAM_OPS = 260;   // Behind the decoded ROM are the addresses 0-$FF, with RAM from $80 on, and what follows.

// The addressing modes of the 6507's opcodes.
enum Place : u8 {
    NO_PLACE,
    IMPLIED,
    IMMEDIATE_,
    ZERO,
    ZERO_X,
    ZERO_Y,
    ABSOLUTE,
    ABSOLUTE_X,
    ABSOLUTE_Y,
    INDIRECT_Y,
    INDIRECT_X,
    RELATIVE
};

struct FastDecode {
    const u8* rom;
    u32 size, unit;  // A unit of the ROM is mapped as a whole, and is a bank or a slice of a bank.
    u32 low, high;   // A bank is plain ROM from offset `low` to `high`.
    CartridgeKind kind;

    HD u32 at(u32 offset, u32 i) const { return rom[offset + i]; }
    HD static u32 op(u32 fast, u32 operand) { return fast | operand << 16; }

    // Returns the ROM offset of the 256 bytes that an indexed read may access, or -1 if some are not plain ROM of the
    // same bank.
    HD i32 table(u32 offset, u32 address) const {
        const u32 first = address & 0xFFF;
        if (!(address & 0x1000) || first < low || first + 255 >= high || kind == CART_E0) return -1;
        if (kind == CART_FE) return i32((address & 0x2000 ? 0 : 0x1000) + first);
        if (kind == CART_2K) return (first & 0x7FF) + 255 < 0x800 ? i32(first & 0x7FF) : -1;
        return i32((offset & ~0xFFFu) + first);
    }
    HD bool switches(u32 address) const {
        const u32 at = address & 0xFFF;
        return address & 0x1000 && (at < low || at >= high);
    }

    // Decodes an arithmetic instruction. `first` is the instruction's first FastOp, to which the place of the operand
    // is added.
    HD u32 alu(u32 first, u32 place, u32 offset) const {
        const u32 zp = at(offset, 1), address = place >= ABSOLUTE && place <= ABSOLUTE_Y ? zp | at(offset, 2) << 8 : 0;
        i32 start;
        switch (place) {
            case IMMEDIATE_: return op(first, zp);
            case ZERO: return zp & 0x80 ? op(first + 1, zp & 0x7F) : op(first + 2, zp);
            case ABSOLUTE: return switches(address) ? op(FAST_SLOW, 0) : op(first + 3, address);
            case ZERO_X:
            case ZERO_Y: return op(first + 4, zp);
            case ABSOLUTE_X:
                start = table(offset, address);
                return start >= 0 ? op(first + 5, u32(start)) : op(first + 6, address);
            case ABSOLUTE_Y:
                start = table(offset, address);
                return start >= 0 ? op(first + 7, u32(start)) : op(first + 8, address);
            case INDIRECT_Y: return zp >= 0x80 && zp < 0xFF ? op(first + 9, zp & 0x7F) : op(FAST_SLOW, 0);
            case INDIRECT_X: return op(first + 10, zp);
        }
        return op(FAST_SLOW, 0);
    }
    HD u32 index_register(u32 first, u32 place, u32 offset) const {  // LDX and LDY have only one index register.
        const u32 done = alu(first, place, offset);
        const u32 fast = done & 0xFFFF;
        // LDX has no FastOps _RX and _AX, so that its _RY and _AY come two places earlier than those of ORA.
        if (place == ABSOLUTE_Y && fast != FAST_SLOW) return done - 2;
        return done;
    }
    // Decodes a store, whose fast instructions are in the order of places RZ TZ TS WS GZ GA, and then the indexed
    // places.
    HD u32 store(u32 first, u32 place, u32 offset) const {
        const u32 zp = at(offset, 1), address = place >= ABSOLUTE && place <= ABSOLUTE_Y ? zp | at(offset, 2) << 8 : 0;
        switch (place) {
            case ZERO:
                if (zp & 0x80) return op(first, zp & 0x7F);
                if ((zp & 0x3F) == WSYNC) return op(first + 3, zp);
                return op(first + (!logged(zp & 0x3F) ? 4 : FastLog::simple(zp & 0x3F) ? 1 : 2), zp & 0x3F);
            case ABSOLUTE: return switches(address) ? op(FAST_SLOW, 0) : op(first + 5, address);
            case ZERO_X:
            case ZERO_Y: return op(first + 6, zp);
            case ABSOLUTE_X: return op(first + 7, address);
            case ABSOLUTE_Y: return op(first + 8, address);
            case INDIRECT_Y: return zp >= 0x80 && zp < 0xFF ? op(first + 9, zp & 0x7F) : op(FAST_SLOW, 0);
        }
        return op(FAST_SLOW, 0);
    }
    HD static bool logged(u32 reg) { return reg >= NUSIZ0 && reg < TIA_REGISTERS && !(reg >= AUDC0 && reg <= AUDV1); }
    HD u32 modify(u32 first, u32 place, u32 offset) const {
        const u32 zp = at(offset, 1), address = place == ABSOLUTE ? zp | at(offset, 2) << 8 : 0;
        switch (place) {
            case ZERO: return zp & 0x80 ? op(first, zp & 0x7F) : op(first + 2, zp);
            case ZERO_X: return op(first + 1, zp);
            case ABSOLUTE: return address & 0x1000 ? op(FAST_SLOW, 0) : op(first + 3, address);
        }
        return op(FAST_SLOW, 0);
    }
    // Decodes a branch. The low two bits of the operand are the extra cycles if the branch is taken (1 or 2), and the
    // other bits are the distance.
    HD u32 branch(u32 fast, u32 offset) const {
        const i32 distance = 2 + i8(at(offset, 1)), target = i32(offset) + distance;
        if (target < 0 || u32(target) / unit != offset / unit || u32(target) >= size) return op(FAST_SLOW, 0);
        const u32 cycles = ((offset + 2) ^ u32(target)) & 0xFF00 ? 2 : 1;
        return op(fast, (u32(distance) << 2 | cycles) & 0xFFFF);
    }
    // Recognizes a loop of LDA, LDX or LDY INTIM and BNE, BPL or BMI back to this load: 6 cycles, and 1 or 2 more if
    // the branch is taken.
    HD u32 poll(u32 offset) const {
        const u32 opcode = at(offset, 0), address = at(offset, 1) | at(offset, 2) << 8;
        const u32 jump = at(offset, 3);
        if (offset % unit + 5 >= unit || (address & 0x1284) != 0x284 || address & 1 || at(offset, 4) != 0xFB) return 0;
        const u32 reg = opcode == 0xAD ? 0 : opcode == 0xAE ? 1 : opcode == 0xAC ? 2 : 3;
        const u32 test = jump == 0xD0 ? 0 : jump == 0x10 ? 1 : jump == 0x30 ? 2 : 3;
        if (reg == 3 || test == 3) return 0;
        const u32 crosses = ((offset + 5) ^ offset) & 0xFF00 ? 1 : 0;
        return op(FAST_POLL, reg | test << 2 | crosses << 4);
    }

    HD u32 decode(u32 offset) const {
        const u32 opcode = rom[offset], place = place_of(opcode);
        const u32 length = place == IMPLIED || place == NO_PLACE ? 1 : place >= ABSOLUTE && place <= ABSOLUTE_Y ? 3 : 2;
        const u32 in_unit = offset % unit, in_bank = offset & 0xFFF;
        if (in_unit + length >= unit || in_bank < low || in_bank + length > high) return op(FAST_SLOW, 0);
        const bool jumps = opcode == 0x20 || opcode == 0x4C || opcode == 0x6C;
        if (jumps && (in_unit + 3 >= unit || in_bank + 3 > high)) return op(FAST_SLOW, 0);
        if (const u32 done = place == ABSOLUTE && in_bank + 5 <= high ? poll(offset) : 0) return done;
        return instruction(offset);
    }

    // Decodes an instruction whose bytes are all in plain ROM of the same bank, or in RAM.
    HD u32 instruction(u32 offset) const {
        const u32 opcode = rom[offset], place = place_of(opcode);
        if (opcode == 0x20 || opcode == 0x4C || opcode == 0x6C) {
            const u32 target = at(offset, 1) | at(offset, 2) << 8;
            if (opcode == 0x6C) return target >= 0x80 && target < 0xFF ? op(FAST_JMI, target & 0x7F) : op(FAST_SLOW, 0);
            return op(opcode == 0x20 ? FAST_JSR : FAST_JMP, target);
        }
        switch (opcode & 0xE3) {
            case 0x01: return alu(FAST_ORA_IM, place, offset);
            case 0x21: return alu(FAST_AND_IM, place, offset);
            case 0x41: return alu(FAST_EOR_IM, place, offset);
            case 0x61: return alu(FAST_ADC_IM, place, offset);
            case 0x81: return place == IMMEDIATE_ ? op(FAST_NOP, 0) : store(FAST_STA_RZ, place, offset);
            case 0xA1: return alu(FAST_LDA_IM, place, offset);
            case 0xC1: return alu(FAST_CMP_IM, place, offset);
            case 0xE1: return alu(FAST_SBC_IM, place, offset);
        }
        switch (opcode) {
                // clang-format off
            case 0xA2: case 0xA6: case 0xAE: case 0xB6: case 0xBE: return index_register(FAST_LDX_IM, place, offset);
            case 0xA0: case 0xA4: case 0xAC: case 0xB4: case 0xBC: return index_register(FAST_LDY_IM, place, offset);
            case 0xE0: case 0xE4: case 0xEC: return alu(FAST_CPX_IM, place, offset);
            case 0xC0: case 0xC4: case 0xCC: return alu(FAST_CPY_IM, place, offset);
            case 0x24: case 0x2C: return alu(FAST_BIT_RZ - 1, place, offset);
            case 0x86: case 0x8E: case 0x96: return store(FAST_STX_RZ, place, offset);
            case 0x84: case 0x8C: case 0x94: return store(FAST_STY_RZ, place, offset);
            case 0xE6: case 0xEE: case 0xF6: return modify(FAST_INC_RZ, place, offset);
            case 0xC6: case 0xCE: case 0xD6: return modify(FAST_DEC_RZ, place, offset);
            case 0x06: case 0x0E: case 0x16: return modify(FAST_ASL_RZ, place, offset);
            case 0x26: case 0x2E: case 0x36: return modify(FAST_ROL_RZ, place, offset);
            case 0x46: case 0x4E: case 0x56: return modify(FAST_LSR_RZ, place, offset);
            case 0x66: case 0x6E: case 0x76: return modify(FAST_ROR_RZ, place, offset);
            // clang-format on
            case 0x0A: return op(FAST_ASL_A, 0);
            case 0x2A: return op(FAST_ROL_A, 0);
            case 0x4A: return op(FAST_LSR_A, 0);
            case 0x6A: return op(FAST_ROR_A, 0);
            case 0x10: return branch(FAST_BPL, offset);
            case 0x30: return branch(FAST_BMI, offset);
            case 0x50: return branch(FAST_BVC, offset);
            case 0x70: return branch(FAST_BVS, offset);
            case 0x90: return branch(FAST_BCC, offset);
            case 0xB0: return branch(FAST_BCS, offset);
            case 0xD0: return branch(FAST_BNE, offset);
            case 0xF0: return branch(FAST_BEQ, offset);
            case 0x00: return op(FAST_BRK, 0);
            case 0x40: return op(FAST_RTI, 0);
            case 0x60: return op(FAST_RTS, 0);
            case 0x48: return op(FAST_PHA, 0);
            case 0x08: return op(FAST_PHP, 0);
            case 0x28: return op(FAST_PLP, 0);
            case 0x68: return op(FAST_PLA, 0);
            case 0x18: return op(FAST_CLC, 0);
            case 0x38: return op(FAST_SEC, 0);
            case 0x58: return op(FAST_CLI, 0);
            case 0x78: return op(FAST_SEI, 0);
            case 0xB8: return op(FAST_CLV, 0);
            case 0xD8: return op(FAST_CLD, 0);
            case 0xF8: return op(FAST_SED, 0);
            case 0x88: return op(FAST_DEY, 0);
            case 0xC8: return op(FAST_INY, 0);
            case 0xCA: return op(FAST_DEX, 0);
            case 0xE8: return op(FAST_INX, 0);
            case 0x8A: return op(FAST_TXA, 0);
            case 0x98: return op(FAST_TYA, 0);
            case 0xA8: return op(FAST_TAY, 0);
            case 0xAA: return op(FAST_TAX, 0);
            case 0xBA: return op(FAST_TSX, 0);
            case 0x9A: return op(FAST_TXS, 0);
            case 0xEA: return op(FAST_NOP, 0);
        }
        // The plain interpreter runs undocumented opcodes.
        return op(FAST_SLOW, 0);
    }

    // Returns an opcode's addressing mode, which is IMPLIED for opcodes without operands.
    HD static u32 place_of(u32 opcode) {
        const u32 row = opcode >> 2 & 7, column = opcode & 3;
        if (column == 3) return NO_PLACE;
        switch (row) {
            case 0:
                if (column == 1) return INDIRECT_X;
                return opcode >= 0xA0 && (column == 2 ? opcode == 0xA2 : true) ? IMMEDIATE_ : IMPLIED;
            case 1: return ZERO;
            case 2: return column == 1 ? IMMEDIATE_ : IMPLIED;
            case 3: return ABSOLUTE;
            case 4: return column == 0 ? RELATIVE : column == 1 ? INDIRECT_Y : NO_PLACE;
            case 5: return opcode == 0x96 || opcode == 0xB6 ? ZERO_Y : ZERO_X;
            case 6: return column == 1 ? ABSOLUTE_Y : IMPLIED;
            default: return opcode == 0xBE ? ABSOLUTE_Y : ABSOLUTE_X;
        }
    }
};

HD void fast_decode(u32* ops, const Rom& rom) {
    const FastDecode d{rom.bytes,
                       rom.size,
                       rom.kind == CART_E0   ? 1024u
                       : rom.kind == CART_2K ? 2048u
                                             : 4096u,
                       rom.kind == CART_FE ? 0u : rom.registers,
                       rom.kind == CART_FE ? 0x1000u : rom.hotspots,
                       rom.kind};
    const u32 code = rom.size / d.unit * d.unit;  // The 2 KB after DPC's banks are data.
    for (u32 offset = 0; offset < code; offset++) ops[offset] = d.decode(offset);
    for (u32 offset = code; offset < rom.size + RAM_OPS; offset++)
        ops[offset] = FastDecode::op(offset - rom.size - 128 < RAM_CODE ? FAST_RAM : FAST_SLOW, 0);
}

// Caches the decoded forms of instructions that are in the console's RAM. An entry is valid while the three bytes that
// were decoded are unchanged.
struct RamCode {
    u32 bytes[RAM_CODE], ops[RAM_CODE];

    HD u32 decoded(const u8* ram, u32 i, u32 low, u32 high) {
        const u32 now = u32(ram[i]) | u32(ram[i + 1]) << 8 | u32(ram[i + 2]) << 16 | 1u << 24;
        if (bytes[i] != now) {
            bytes[i] = now;
            // CART_E0 stands for a cartridge without known ROM offsets, so that indexed reads use the general code. JSR
            // is SLOW, because it may overwrite its own operand.
            const FastDecode d{ram, 128, 128, low, high, CART_E0};
            ops[i] = ram[i] == 0x20 ? FastDecode::op(FAST_SLOW, 0) : d.instruction(i);
        }
        return ops[i];
    }
};

}  // namespace accel
