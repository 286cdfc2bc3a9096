// Runs programs of random 6507 instructions in the lanes of the step kernel and in the emulator's plain core, and
// compares states, rewards and pictures.
//
// |   agree COUNT SEED
// Each program displays whole frames between random instructions that change registers, the stack, the RAM and the
// banks.
#include <cstdio>
#include <cstdlib>

#include "cartridge_envs.h"

namespace {

// Writes a program at the same address in all banks of a cartridge, or in the slice of an E0 cartridge that is never
// switched.
class Program6507 {
  public:
    explicit Program6507(CartridgeKind kind) : kind_(kind), rom_(cartridge_size(kind), 0) {
        for (char& byte : rom_) byte = char(below(256));
        at_ = kind == CART_E0 ? 0xC00 : 0x100;
        const u32 routine = put({0xE6, 0xA0, 0x60}),
                  handler = put({0x08, 0xC6, 0xA1, 0x28, 0x40});  // inc, rts; php, dec, plp, rti
        vector(0xFFE, handler);
        vector(0xFFC, at_);
        put({0x78, 0xD8, 0xA2, 0xFF, 0x9A});
        const u32 frame = put({0xA9, 0x02, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0x85, 0x02, 0xA9, 0x00, 0x85, 0x00, 0x85, 0x01});
        const u32 end = at_ + 0x1C0;
        while (at_ < end) instruction(routine);
        put({0xA2, u8(200 + below(25)), 0x85, 0x02, 0xCA, 0xD0, 0xFB});  // ldx; sta WSYNC, dex, bne
        put({0xA2, u8(below(8) ? 0x88 + below(120) : below(256)), 0x9A});
        jump(0x4C, frame);
    }
    const std::string& rom() const { return rom_; }

  private:
    u32 put(std::initializer_list<u8> bytes) {
        const u32 begun = at_;
        for (u8 byte : bytes) set(at_++, byte);
        return begun;
    }
    void set(u32 offset, u8 byte) {
        if (kind_ == CART_E0) rom_[0x1C00 + (offset - 0xC00)] = char(byte);
        else
            for (u32 bank = 0; bank < (rom_.size() + 0xFFF) / 0x1000; bank++)
                rom_[(bank * 0x1000 + offset) % rom_.size()] = char(byte);
    }
    void vector(u32 at, u32 offset) { set(at, u8(offset)), set(at + 1, u8(0xF0 | offset >> 8)); }
    void jump(u8 opcode, u32 offset) { put({opcode, u8(offset), u8(0xF0 | offset >> 8)}); }

    u8 zero_page() { return u8(below(8) < 5 ? 0x80 | below(128) : below(4) ? 1 + below(0x2C) : below(256)); }
    void address() {
        const u32 where = below(8);
        if (where < 2) put({zero_page(), u8(below(2))});
        else if (where < 3) put({u8(0x80 + below(0x18)), 2});             // the RIOT
        else if (where < 6) put({u8(below(256)), u8(0xF0 | below(16))});  // tables, registers of a cartridge
        else if (kind_ == CART_E0) put({u8(0xE0 + below(24)), 0xFF});     // switches of banks
        else put({u8(0xF0 + below(16)), 0xFF});
    }
    void instruction(u32 routine) {
        const u32 chosen = below(24);
        if (chosen == 0) return void(put({0x85, 0x02}));  // sta WSYNC
        if (chosen == 1) return jump(0x20, routine);
        if (chosen == 2) return void(put({0x00, u8(below(256))}));  // brk
        if (chosen == 3) {                                          // jmp () to what follows, with the pointer in the RAM
            const u32 behind = at_ + 11;
            put({0xA9, u8(behind), 0x85, 0x90, 0xA9, u8(0xF0 | behind >> 8), 0x85, 0x91, 0x6C, 0x90, 0x00});
            return;
        }
        const u8 opcode = u8(below(256)), low = opcode & 31;
        if (low == 0x10) return void(put({opcode, 1, 0xEA}));  // a branch over a byte
        if (opcode == 0x00 || opcode == 0x20 || opcode == 0x40 || opcode == 0x60 || opcode == 0x4C || opcode == 0x6C) return;
        if (opcode == 0x9A && below(8)) return;  // With the stack in the TIA, only the plain core runs JSR and BRK.
        if ((opcode & 3) == 3 || (opcode & 0x9F) == 2 || opcode == 0x82 || opcode == 0xC2 || opcode == 0xE2)
            return;  // undocumented
        put({opcode});
        if (low == 0x08 || low == 0x18 || low == 0x0A || low == 0x1A) return;
        if (low == 0x0C || low == 0x0D || low == 0x0E || low == 0x19 || low == 0x1C || low == 0x1D || low == 0x1E)
            return address();
        put({zero_page()});
    }

    const CartridgeKind kind_;
    std::string rom_;
    u32 at_;
};

Play powered_on(const std::string& rom, CartridgeKind kind) {
    Play play{};
    centre_controllers(play.state, JOYSTICKS);
    power_on(play.state, rom, kind, 3);
    return play;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    random_seed(chance, u32(std::atoi(argv[2])));
    const CartridgeKind kinds[] = {CART_4K, CART_F8, CART_F6, CART_F8SC, CART_E0};
    u64 count[4] = {0, 0, 0, 0};
    for (int i = 0; i < std::atoi(argv[1]); i++) {
        const CartridgeKind kind = kinds[below(5)];
        const std::string rom = Program6507(kind).rom();
        const Play start = powered_on(rom, kind);
        Envs envs(rom, kind, start, 4, ObservationKind(below(OBSERVATION_KINDS)), 0.25);
        for (int t = 0; t < 4; t++)
            if (const char* difference = envs.step_beside_the_plain_core()) {
                std::printf("program %d, cartridge %d, step %d: %s\n", i, int(kind), t, difference);
                return 1;
            }
        for (u32 code = 0; code < 4; code++) count[code] += envs.count[code];
    }
    std::printf("steps: %llu fast, %llu by the plain core, %llu with an unknown picture, %llu of damaged states\n",
                count[ALL_FAST], count[PLAIN], count[UNKNOWN_PICTURE], count[DAMAGED]);
    return 5 * count[ALL_FAST] > count[PLAIN] + count[UNKNOWN_PICTURE] && !count[DAMAGED] ? 0 : 1;
}
