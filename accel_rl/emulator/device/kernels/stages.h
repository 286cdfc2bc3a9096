// An instruction of the 6507 is executed as a sequence of stages, whose code all lanes of a warp share. For each
// opcode, a table word defines what each stage does:
// | operand  ->  read  ->  adder, logic or shifter  ->  write
//
// | LDA zp,X     ZX       yes      pass M -> A
// | ADC #        IM       -        A + M + C -> A, N Z C V
// | CMP abs      AB       yes      A + ~M + 1, N Z C
// | INC zp       ZP       yes      M + 1 -> M, N Z                 yes
// | BNE          REL      -        branch
//
// A warp executes every stage that at least one of its lanes needs. There are only a few stages, instead of 150
// instructions.
#pragma once
#include "../../core/types.h"

namespace accel {

// clang-format off
enum Mode : u32 {
    MODE_IMPLIED, MODE_IMMEDIATE, MODE_ZP, MODE_ZX, MODE_ZY, MODE_AB, MODE_AX, MODE_AY, MODE_IY, MODE_IX, MODE_PUSH, MODE_PULL,
    MODE_RELATIVE
};
// clang-format on
enum Work : u32 {
    WORK_SLOW,  // The plain interpreter runs undocumented opcodes.
    WORK_PASS,
    WORK_OR,
    WORK_AND,
    WORK_EOR,
    WORK_ADD,
    WORK_LEFT,
    WORK_RIGHT,
    WORK_BIT,
    WORK_FLAG,
    WORK_BRANCH,
    WORK_JMP,
    WORK_JSR,
    WORK_RTS
};
enum Register : u32 { IN_A, IN_X, IN_Y, IN_SP, IN_M, IN_FLAGS, NOWHERE };
enum CarryIn : u32 { CARRY_0, CARRY_1, CARRY_C };
enum Changed : u32 { NO_FLAGS = 0, NZ = 1, NZC = 3, NZCV = 7 };

struct Stages {
    u32 bits;

    // clang-format off
    HD u32 mode() const { return bits & 15; }
    HD u32 work() const { return bits >> 4 & 15; }
    HD u32 left() const { return bits >> 8 & 7; }
    HD u32 target() const { return bits >> 11 & 7; }
    HD bool inverts() const { return bits >> 14 & 1; }
    HD u32 carry_in() const { return bits >> 15 & 3; }
    HD bool sets_nz() const { return bits >> 17 & 1; }
    HD bool sets_c() const { return bits >> 18 & 1; }
    HD bool sets_v() const { return bits >> 19 & 1; }
    HD bool reads() const { return bits >> 20 & 1; }
    HD bool writes() const { return bits >> 21 & 1; }
    HD bool counts_pages() const { return bits >> 22 & 1; }  // If true, an access across a page takes one more cycle.
    HD u32 length() const { return bits >> 23 & 3; }
    HD i32 cycles() const { return i32(bits >> 25 & 7); }
    // Returns an argument of the stage's work: a Flag for WORK_FLAG, a Right for WORK_ADD, a Jump for jumps, and for
    // WORK_BRANCH the flag and the value of the flag with which the branch is taken.
    HD u32 extra() const { return bits >> 28; }
    // clang-format on
};

// The right operand of the adder: M in binary, M in binary or decimal mode, or nothing.
enum Right : u32 { RIGHT_M, RIGHT_DECIMAL, RIGHT_NONE };
enum Flag : u32 { CLEAR_C, SET_C, CLEAR_D, SET_D, CLEAR_V, CLEAR_I, SET_I, NO_FLAG };
// Kinds of jumps: JMP () reads its target from the RAM, BRK also pushes the flags, and RTI also pulls the flags.
enum Jump : u32 { JUMP_PLAIN, JUMP_INDIRECT, JUMP_BRK, JUMP_RTI };

struct StageTable {
    Stages of[256];
};

// Builds the table of stages, by groups of similar opcodes.
struct StageMaker {
    StageTable table{};

    struct Alu {
        u32 work, left, target, flags;
        bool inverts = false;
        u32 carry = CARRY_0, extra = 0;
    };

    HD static constexpr u32 length_of(u32 mode) {
        if (mode == MODE_IMPLIED || mode == MODE_PUSH || mode == MODE_PULL) return 1;
        return mode >= MODE_AB && mode <= MODE_AY ? 3 : 2;
    }

    HD constexpr void put(u32 opcode, u32 mode, const Alu& a, bool reads, bool writes, u32 cycles) {
        const bool pages = reads && !writes && (mode == MODE_AX || mode == MODE_AY || mode == MODE_IY);
        table.of[opcode].bits = mode | a.work << 4 | a.left << 8 | a.target << 11 | u32(a.inverts) << 14 | a.carry << 15 |
                                a.flags << 17 | u32(reads) << 20 | u32(writes) << 21 | u32(pages) << 22 | length_of(mode) << 23 |
                                cycles << 25 | a.extra << 28;
    }
    HD constexpr void implied(u32 opcode, u32 cycles, const Alu& a) { put(opcode, MODE_IMPLIED, a, false, false, cycles); }

    // Fills in the eight addressing modes of ORA, AND, EOR, ADC, LDA, CMP or SBC.
    HD constexpr void accumulator(u32 first, const Alu& a) {
        const u32 modes[8] = {MODE_IX, MODE_ZP, MODE_IMMEDIATE, MODE_AB, MODE_IY, MODE_ZX, MODE_AY, MODE_AX};
        const u32 cycles[8] = {6, 3, 2, 4, 5, 4, 4, 4};
        for (u32 k = 0; k < 8; k++) put(first + 4 * k + 1, modes[k], a, modes[k] != MODE_IMMEDIATE, false, cycles[k]);
    }
    HD constexpr void store_accumulator() {
        const Alu a{WORK_PASS, IN_A, IN_M, NO_FLAGS};
        const u32 opcodes[7] = {0x81, 0x85, 0x8D, 0x91, 0x95, 0x99, 0x9D}, cycles[7] = {6, 3, 4, 6, 4, 5, 5};
        const u32 modes[7] = {MODE_IX, MODE_ZP, MODE_AB, MODE_IY, MODE_ZX, MODE_AY, MODE_AX};
        for (u32 k = 0; k < 7; k++) put(opcodes[k], modes[k], a, false, true, cycles[k]);
    }
    // Fills in LDX, LDY, CPX or CPY. LDX is indexed by Y, LDY by X, and CPX and CPY have no indexed modes (NOWHERE).
    HD constexpr void indexed(u32 immediate, u32 index, const Alu& a) {
        const u32 zero = index == IN_Y ? MODE_ZY : MODE_ZX, absolute = index == IN_Y ? MODE_AY : MODE_AX;
        put(immediate, MODE_IMMEDIATE, a, false, false, 2);
        put(immediate + 4, MODE_ZP, a, true, false, 3);
        put(immediate + 12, MODE_AB, a, true, false, 4);
        if (index == NOWHERE) return;
        put(immediate + 20, zero, a, true, false, 4);
        put(immediate + 28, absolute, a, true, false, 4);
    }
    HD constexpr void modify(u32 zero_page, const Alu& a) {
        put(zero_page, MODE_ZP, a, true, true, 5);
        put(zero_page + 0x08, MODE_AB, a, true, true, 6);
        put(zero_page + 0x10, MODE_ZX, a, true, true, 6);
        put(zero_page + 0x18, MODE_AX, a, true, true, 7);
    }
    HD constexpr void store_index(u32 zero_page, u32 index_mode, u32 from) {
        const Alu a{WORK_PASS, from, IN_M, NO_FLAGS};
        put(zero_page, MODE_ZP, a, false, true, 3);
        put(zero_page + 0x08, MODE_AB, a, false, true, 4);
        put(zero_page + 0x10, index_mode, a, false, true, 4);
    }

    HD constexpr void make() {
        accumulator(0x00, {WORK_OR, IN_A, IN_A, NZ});
        accumulator(0x20, {WORK_AND, IN_A, IN_A, NZ});
        accumulator(0x40, {WORK_EOR, IN_A, IN_A, NZ});
        accumulator(0x60, {WORK_ADD, IN_A, IN_A, NZCV, false, CARRY_C, RIGHT_DECIMAL});
        accumulator(0xA0, {WORK_PASS, IN_M, IN_A, NZ});
        accumulator(0xC0, {WORK_ADD, IN_A, NOWHERE, NZC, true, CARRY_1});
        accumulator(0xE0, {WORK_ADD, IN_A, IN_A, NZCV, true, CARRY_C, RIGHT_DECIMAL});
        store_accumulator();
        indexed(0xA2, IN_Y, {WORK_PASS, IN_M, IN_X, NZ});
        indexed(0xA0, IN_X, {WORK_PASS, IN_M, IN_Y, NZ});
        indexed(0xE0, NOWHERE, {WORK_ADD, IN_X, NOWHERE, NZC, true, CARRY_1});
        indexed(0xC0, NOWHERE, {WORK_ADD, IN_Y, NOWHERE, NZC, true, CARRY_1});
        store_index(0x86, MODE_ZY, IN_X);
        store_index(0x84, MODE_ZX, IN_Y);
        put(0x24, MODE_ZP, {WORK_BIT, IN_A, NOWHERE, NO_FLAGS}, true, false, 3);
        put(0x2C, MODE_AB, {WORK_BIT, IN_A, NOWHERE, NO_FLAGS}, true, false, 4);
        modify(0xE6, {WORK_ADD, IN_M, IN_M, NZ, false, CARRY_1, RIGHT_NONE});
        modify(0xC6, {WORK_ADD, IN_M, IN_M, NZ, true, CARRY_0, RIGHT_NONE});
        shift(0x00, WORK_LEFT, CARRY_0);
        shift(0x20, WORK_LEFT, CARRY_C);
        shift(0x40, WORK_RIGHT, CARRY_0);
        shift(0x60, WORK_RIGHT, CARRY_C);
        registers();
        control();
    }
    HD constexpr void shift(u32 first, u32 work, u32 carry) {
        implied(first + 0x0A, 2, {work, IN_A, IN_A, NZC, false, carry});
        modify(first + 0x06, {work, IN_M, IN_M, NZC, false, carry});
    }
    HD constexpr void registers() {
        implied(0xE8, 2, {WORK_ADD, IN_X, IN_X, NZ, false, CARRY_1, RIGHT_NONE});
        implied(0xC8, 2, {WORK_ADD, IN_Y, IN_Y, NZ, false, CARRY_1, RIGHT_NONE});
        implied(0xCA, 2, {WORK_ADD, IN_X, IN_X, NZ, true, CARRY_0, RIGHT_NONE});
        implied(0x88, 2, {WORK_ADD, IN_Y, IN_Y, NZ, true, CARRY_0, RIGHT_NONE});
        implied(0x8A, 2, {WORK_PASS, IN_X, IN_A, NZ});
        implied(0x98, 2, {WORK_PASS, IN_Y, IN_A, NZ});
        implied(0xA8, 2, {WORK_PASS, IN_A, IN_Y, NZ});
        implied(0xAA, 2, {WORK_PASS, IN_A, IN_X, NZ});
        implied(0xBA, 2, {WORK_PASS, IN_SP, IN_X, NZ});
        implied(0x9A, 2, {WORK_PASS, IN_X, IN_SP, NO_FLAGS});
        // The opcodes that set or clear a flag, in the order of Flag, and then NOP.
        const u32 flag_opcodes[8] = {0x18, 0x38, 0xD8, 0xF8, 0xB8, 0x58, 0x78, 0xEA};
        for (u32 k = 0; k < 8; k++) implied(flag_opcodes[k], 2, {WORK_FLAG, IN_A, NOWHERE, NO_FLAGS, false, CARRY_0, k});
    }
    HD constexpr void control() {
        for (u32 b = 0; b < 8; b++)
            put(0x10 + 0x20 * b, MODE_RELATIVE, {WORK_BRANCH, IN_A, NOWHERE, NO_FLAGS, false, CARRY_0, b}, false, false, 2);
        const auto jump = [](u32 work, u32 kind) { return Alu{work, IN_A, NOWHERE, NO_FLAGS, false, CARRY_0, kind}; };
        put(0x4C, MODE_AB, jump(WORK_JMP, JUMP_PLAIN), false, false, 3);
        put(0x6C, MODE_AB, jump(WORK_JMP, JUMP_INDIRECT), false, false, 5);
        put(0x20, MODE_AB, jump(WORK_JSR, JUMP_PLAIN), false, false, 6);
        put(0x00, MODE_IMMEDIATE, jump(WORK_JSR, JUMP_BRK), false, false, 7);
        implied(0x60, 6, jump(WORK_RTS, JUMP_PLAIN));
        implied(0x40, 6, jump(WORK_RTS, JUMP_RTI));
        put(0x48, MODE_PUSH, {WORK_PASS, IN_A, IN_M, NO_FLAGS}, false, true, 3);
        put(0x08, MODE_PUSH, {WORK_PASS, IN_FLAGS, IN_M, NO_FLAGS}, false, true, 3);
        put(0x68, MODE_PULL, {WORK_PASS, IN_M, IN_A, NZ}, true, false, 4);
        put(0x28, MODE_PULL, {WORK_PASS, IN_M, IN_FLAGS, NO_FLAGS}, true, false, 4);
    }
};

HD constexpr StageTable make_stage_table() {
    StageMaker maker;
    maker.make();
    return maker.table;
}

}  // namespace accel
