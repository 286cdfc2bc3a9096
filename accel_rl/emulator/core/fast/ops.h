// The decoded ROM has, for every offset, the instruction that begins at the offset and the place of its operand.
// | bits 31 ............ 16 15 ...... 0
// |      operand            FastOp = instruction x place
//
// | place   the operand is                               operand
// | _IM     immediate                                    the value
// | _RZ     zero page, RAM                               0-127, into the RAM
// | _GZ     zero page, TIA: through the bus              address
// | _GA     absolute, not at a bank switch: the bus      address
// | _ZX _ZY zero page, indexed                           address
// | _RX _RY absolute, indexed, in the ROM for any index  offset in the ROM
// | _AX _AY absolute, indexed, elsewhere                 address
// | _IY     (zero page),Y with the pointer in RAM        0-126, into the RAM
// | _TZ     zero page store, a TIA register that is its value   register
// | _TS     zero page store, another TIA register that only enters the log
// | _WS     zero page store, WSYNC
//
// SLOW marks an instruction that the plain interpreter executes, such as a rare instruction.
// POLL is LDA, LDX or LDY of INTIM with a branch back to the load.
//
// The address of an instruction is its offset in the ROM plus a distance.
// Only a jump changes the distance, because a branch out of its bank is SLOW.
// The low 8 bits of an instruction's address and offset are equal.
#pragma once
#include "../cartridge.h"
#include "log.h"

namespace accel {

// clang-format off
#define FAST_ALU(X, n) X(n##_IM) X(n##_RZ) X(n##_GZ) X(n##_GA) X(n##_ZX) X(n##_RX) X(n##_AX) X(n##_RY) X(n##_AY) X(n##_IY)
#define FAST_MODIFY(X, n) X(n##_RZ) X(n##_ZX)
#define FAST_OPS(X) \
    X(SLOW) X(NOP) X(JMP) X(JMI) X(JSR) X(RTS) X(PHA) X(PHP) X(PLA) \
    FAST_ALU(X, ORA) FAST_ALU(X, AND) FAST_ALU(X, EOR) FAST_ALU(X, ADC) FAST_ALU(X, LDA) FAST_ALU(X, CMP) FAST_ALU(X, SBC) \
    X(LDX_IM) X(LDX_RZ) X(LDX_GZ) X(LDX_GA) X(LDX_ZY) X(LDX_RY) X(LDX_AY) \
    X(LDY_IM) X(LDY_RZ) X(LDY_GZ) X(LDY_GA) X(LDY_ZX) X(LDY_RX) X(LDY_AX) \
    X(CPX_IM) X(CPX_RZ) X(CPX_GZ) X(CPX_GA) X(CPY_IM) X(CPY_RZ) X(CPY_GZ) X(CPY_GA) X(BIT_RZ) X(BIT_GZ) X(BIT_GA) \
    X(STA_RZ) X(STA_TZ) X(STA_TS) X(STA_WS) X(STA_GZ) X(STA_GA) X(STA_ZX) X(STA_AX) X(STA_AY) X(STA_IY) \
    X(STX_RZ) X(STX_TZ) X(STX_TS) X(STX_WS) X(STX_GZ) X(STX_GA) X(STX_ZY) X(STY_RZ) X(STY_TZ) X(STY_TS) X(STY_WS) X(STY_GZ) X(STY_GA) X(STY_ZX) \
    FAST_MODIFY(X, INC) FAST_MODIFY(X, DEC) FAST_MODIFY(X, ASL) FAST_MODIFY(X, LSR) FAST_MODIFY(X, ROL) FAST_MODIFY(X, ROR) \
    X(ASL_A) X(LSR_A) X(ROL_A) X(ROR_A) \
    X(BPL) X(BMI) X(BVC) X(BVS) X(BCC) X(BCS) X(BNE) X(BEQ) \
    X(CLC) X(SEC) X(CLI) X(SEI) X(CLV) X(CLD) X(SED) X(DEY) X(INY) X(DEX) X(INX) \
    X(TXA) X(TYA) X(TAY) X(TAX) X(TSX) X(TXS) X(POLL)
// clang-format on

enum FastOp : u16 {
#define FAST_ENUM(n) FAST_##n,
    FAST_OPS(FAST_ENUM)
#undef FAST_ENUM
        FAST_OP_COUNT
};

constexpr u32 MOST_ROM = 16384;

// Decodes opcodes to fast instructions with their places.
enum Place : u8 { NO_PLACE, IMPLIED, IMMEDIATE_, ZERO, ZERO_X, ZERO_Y, ABSOLUTE, ABSOLUTE_X, ABSOLUTE_Y, INDIRECT_Y, BRANCH };

struct FastDecode {
    const u8* rom;
    u32 size, unit;  // A unit of the ROM is mapped as a whole, and is a bank or a slice of a bank.
    u32 low, high;   // A bank is plain ROM from offset `low` to `high`.
    CartridgeKind kind;

    HD u32 at(u32 offset, u32 i) const { return rom[offset + i]; }
    HD static u32 op(u32 fast, u32 operand) { return fast | operand << 16; }

    // Returns the ROM offset of the 256 bytes of an indexed read, or -1 if not all bytes are plain ROM of the unit.
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

    // `first` is the fast instruction whose places are in FAST_ALU's order.
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
        }
        return op(FAST_SLOW, 0);
    }
    HD u32 index_register(u32 first, u32 place, u32 offset) const {  // LDX and LDY have only one index register.
        const u32 done = alu(first, place, offset);
        const u32 fast = done & 0xFFFF;
        // In FAST_ALU's order, _RY and _AY take the positions of _RX and _AX.
        if (place == ABSOLUTE_Y && fast != FAST_SLOW) return done - 2;
        return done;
    }
    // The order of places is RZ TZ TS WS GZ GA, then the indexed places.
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
        const u32 zp = at(offset, 1);
        if (place == ZERO) return zp & 0x80 ? op(first, zp & 0x7F) : op(FAST_SLOW, 0);
        return place == ZERO_X ? op(first + 1, zp) : op(FAST_SLOW, 0);
    }
    // The operand has the cycles of a taken branch (1 or 2) in the low two bits, then the distance.
    HD u32 branch(u32 fast, u32 offset) const {
        const i32 distance = 2 + i8(at(offset, 1)), target = i32(offset) + distance;
        if (target < 0 || u32(target) / unit != offset / unit || u32(target) >= size) return op(FAST_SLOW, 0);
        const u32 cycles = ((offset + 2) ^ u32(target)) & 0xFF00 ? 2 : 1;
        return op(fast, (u32(distance) << 2 | cycles) & 0xFFFF);
    }
    // Recognizes LDA, LDX or LDY INTIM with BNE, BPL or BMI back to the load: 4 + 2 cycles, and 1 or 2 if taken.
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
        if (opcode == 0x20 || opcode == 0x4C || opcode == 0x6C) {
            if (in_unit + 3 >= unit || in_bank + 3 > high) return op(FAST_SLOW, 0);
            const u32 target = at(offset, 1) | at(offset, 2) << 8;
            if (opcode == 0x6C) return target >= 0x80 && target < 0xFF ? op(FAST_JMI, target & 0x7F) : op(FAST_SLOW, 0);
            return op(opcode == 0x20 ? FAST_JSR : FAST_JMP, target);
        }
        if (const u32 done = place == ABSOLUTE && in_bank + 5 <= high ? poll(offset) : 0) return done;
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
            case 0xE6: case 0xF6: return modify(FAST_INC_RZ, place, offset);
            case 0xC6: case 0xD6: return modify(FAST_DEC_RZ, place, offset);
            case 0x06: case 0x16: return modify(FAST_ASL_RZ, place, offset);
            case 0x26: case 0x36: return modify(FAST_ROL_RZ, place, offset);
            case 0x46: case 0x56: return modify(FAST_LSR_RZ, place, offset);
            case 0x66: case 0x76: return modify(FAST_ROR_RZ, place, offset);
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
            case 0x60: return op(FAST_RTS, 0);
            case 0x48: return op(FAST_PHA, 0);
            case 0x08: return op(FAST_PHP, 0);
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
        // The plain interpreter runs rare opcodes: other read-modify-writes, BRK, RTI, PLP and undocumented opcodes.
        return op(FAST_SLOW, 0);
    }

    // The place of an operand follows from the opcode's bits; opcodes without a place count as implied.
    HD static u32 place_of(u32 opcode) {
        const u32 row = opcode >> 2 & 7, column = opcode & 3;
        if (column == 3) return NO_PLACE;
        switch (row) {
            case 0:
                if (column == 1) return NO_PLACE;
                return opcode >= 0xA0 && (column == 2 ? opcode == 0xA2 : true) ? IMMEDIATE_ : IMPLIED;
            case 1: return ZERO;
            case 2: return column == 1 ? IMMEDIATE_ : IMPLIED;
            case 3: return ABSOLUTE;
            case 4: return column == 0 ? BRANCH : column == 1 ? INDIRECT_Y : NO_PLACE;
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
    for (u32 offset = 0; offset < rom.size; offset++)
        ops[offset] = offset < code ? d.decode(offset) : FastDecode::op(FAST_SLOW, 0);
}

}  // namespace accel
