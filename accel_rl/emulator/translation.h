// Writes a ROM as C++. For each instruction that can be reached, the C++ has a line that expands the instruction's body
// (core/fast/bodies.h).
// | frames of the plain core -> the instructions that ran, and where jumps led      (record)
// | -> closure over branches, calls and jumps with a fixed target -> one line of C++ an instruction (source)
//
// A translated ROM is derived from the ROM, and is therefore compiled on the user's machine and never distributed.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "core/fast/frame.h"

namespace accel {

class Translator {
  public:
    Translator(const Rom& rom, const u32* ops) : rom_(rom), ops_(ops), ran_(rom.size), entered_(rom.size) {}

    // Records the instruction that the plain core executes next.
    void record(const Console& console) {
        const u32 pc = console.s.cpu.pc;
        const i32 previous = previous_;
        previous_ = -1;
        if (!(pc & 0x1000)) return;  // code in RAM
        const u32 offset = rom_.kind == CART_FE ? (pc & 0x2000 ? 0 : 0x1000) + (pc & 0xFFF)
                                                : console.s.cartridge.slice[pc >> 10 & 3] + (pc & 0x3FF);
        ran_[offset] = true;
        if (previous < 0 || !follows(u32(previous), offset)) entered_[offset] = true;
        previous_ = i32(offset);
    }
    void begin_frame() { previous_ = -1; }

    // Returns the text of the file that cpu.h includes as TRANSLATED.
    std::string source() {
        std::vector<u32> todo;
        for (u32 offset = 0; offset < rom_.size; offset++)
            if (ran_[offset]) todo.push_back(offset);
        std::vector<bool> reached = ran_, named(rom_.size);
        while (!todo.empty()) {
            const u32 offset = todo.back();
            todo.pop_back();
            for (i32 next : successors(offset)) {
                if (next < 0 || reached[u32(next)]) continue;
                reached[u32(next)] = true;
                todo.push_back(u32(next));
            }
        }
        std::string entries, code;
        for (u32 offset = 0; offset < MOST_ROM; offset++) {
            const bool enters = offset < rom_.size && reached[offset] && entered_[offset] && fast(offset) != FAST_SLOW;
            entries += enters ? "&&N_" + std::to_string(offset) + "," : "0,";
        }
        for (u32 offset = 0; offset < rom_.size; offset++)
            if (reached[offset]) code += line(offset, named);
        for (u32 offset = 0; offset < rom_.size; offset++)
            if (named[offset] && !reached[offset]) code += "X(" + std::to_string(offset) + ")\n";
        return "#ifdef ENTRIES\n" + entries + "\n#else\n" + code + "#endif\n";
    }

  private:
    struct Op {
        const char *body, *name;
    };
    static const Op& op_of(u32 fast) {
        static constexpr Op ops[FAST_OP_COUNT] = {
#define FAST_NAMES(body, fast, name) {#body, #name},
            FAST_OPS(FAST_NAMES)
#undef FAST_NAMES
        };
        return ops[fast];
    }
    u32 fast(u32 offset) const { return ops_[offset] & 0xFFFF; }
    u32 operand(u32 offset) const { return ops_[offset] >> 16; }
    bool is(u32 offset, const char* body) const { return !std::strcmp(op_of(fast(offset)).body, body); }

    u32 length(u32 offset) const {
        const std::string body = op_of(fast(offset)).body;
        if (body == "POLL") return 5;
        if (body == "JMP" || body == "JMI" || body == "JSR") return 3;
        if (body == "BRANCH") return 2;
        const size_t place = body.find('_');
        if (place == std::string::npos || body == "SHIFT_A") return 1;
        const std::string name = body.substr(place + 1);
        return name == "GA" || name == "RX" || name == "RY" || name == "AX" || name == "AY" ? 3 : 2;
    }

    // Returns the offset in the ROM to which a taken branch or a jump always leads, or -1 if the target may vary.
    i32 target(u32 offset) const {
        if (is(offset, "BRANCH")) return i32(offset) + (i32(ops_[offset]) >> 18);
        if (fast(offset) != FAST_JMP && fast(offset) != FAST_JSR) return -1;
        const u32 to = operand(offset);
        if (rom_.kind == CART_E0 || rom_.kind == CART_FE || !(to & 0x1000)) return -1;
        return i32(rom_.kind == CART_2K ? to & 0x7FF : (offset & ~0xFFFu) + (to & 0xFFF));
    }

    std::vector<i32> successors(u32 offset) {
        const i32 behind = i32(offset + length(offset));
        if (fast(offset) == FAST_SLOW || fast(offset) == FAST_JMI || fast(offset) == FAST_RTS || fast(offset) == FAST_RTI ||
            fast(offset) == FAST_BRK)
            return {};
        if (is(offset, "BRANCH")) return {behind, target(offset)};
        if (fast(offset) == FAST_JMP) return {target(offset)};
        if (fast(offset) == FAST_POLL) return {behind, i32(offset) + 3};
        if (fast(offset) != FAST_JSR) return {behind};
        entered_[u32(behind)] = true;  // a return
        return {target(offset), behind};
    }
    bool follows(u32 offset, u32 next) {
        for (i32 known : successors(offset))
            if (known == i32(next) && !(fast(offset) == FAST_JSR && known == i32(offset) + 3)) return true;
        return false;
    }

    std::string line(u32 offset, std::vector<bool>& named) {
        const Op& op = op_of(fast(offset));
        if (fast(offset) == FAST_SLOW) return "X(" + std::to_string(offset) + ")\n";
        const bool jumps = fast(offset) == FAST_JMP || fast(offset) == FAST_JSR;
        const i32 to = target(offset);
        const u32 zero = jumps && to >= 0 ? (u32(to) & ~0xFFu) - (operand(offset) & 0xFF00) : 0;
        const u32 behind = offset + length(offset), taken = to >= 0 ? u32(to) : behind;
        named[behind] = named[taken] = true;
        std::string out = "T(" + std::to_string(offset) + ", " + op.body + "(" + op.name + ")";
        for (const u32 value : {operand(offset), u32(jumps && to >= 0), zero}) out += ", " + std::to_string(value) + "u";
        return out + ", N_" + std::to_string(taken) + ", N_" + std::to_string(behind) + ")\n";
    }

    const Rom& rom_;
    const u32* ops_;
    std::vector<bool> ran_, entered_;  // Offsets that the plain core executed, and to which not only fixed targets led.
    i32 previous_ = -1;
};

}  // namespace accel
