// Plays mutated cartridges and states in the emulator, which may report an error, but must never crash. test_fuzz.py
// builds the program with sanitizers.
//
// |   fuzz run KIND ROM FRAMES        a game, random actions
// |   fuzz roms COUNT SEED [ROM...]   cartridges of 0 to 64 KB: random bytes, or the ROMs with some bytes changed
// |   fuzz states COUNT SEED KIND ROM states of it: bytes changed, cut off, made longer
#include <cstdio>
#include <cstdlib>

#include "random_games.h"

namespace {

constexpr u32 HEAD = 20;  // bytes before the console's state
void mutate(std::string& bytes, size_t from) {
    for (u32 n = 1 + below(8); n && bytes.size() > from; n--) bytes[from + below(u32(bytes.size() - from))] = char(below(256));
}

int run(CartridgeKind kind, const std::string& rom, int frames) {
    Emulator emulator(rom, kind, plain_game(JOYSTICKS), 1, 0.25f);
    emulator.load();
    for (int i = 0; i < frames; i++) emulator.act(below(ACTIONS));
    return 0;
}

// Writes jumps and calls to RAM addresses into `bytes` (a ROM or the RAM), one per 16 bytes, so that code in the RAM
// runs and changes itself.
template <class Bytes>
void jump_to_ram(Bytes& bytes, size_t size) {
    for (size_t n = size / 16; n; n--) {
        const size_t at = below(u32(size - 2));
        const u8 jump[3] = {u8(below(2) ? 0x4C : 0x20), u8(0x80 | below(128)), 0};
        std::memcpy(&bytes[at], jump, sizeof jump);
    }
}

// Plays some frames of a cartridge by the emulator's plain core and by its fast core, which must compute equal results.
// The frames are played on a bare console, because a whole emulator would first play 130 power-up frames.
void some_frames(const std::string& rom, CartridgeKind kind) {
    static u8 pictures[2][2 * 210 * WIDTH];
    static u32 ops[MOST_ROM + RAM_OPS];
    static u8 same[256];
    for (u32 i = 0; i < 256; i++) same[i] = u8(i);
    std::memset(pictures, 0, sizeof pictures);
    State states[2]{};
    TiaLog log{}, other{};
    std::string bytes = rom;
    bytes.resize(cartridge_size(kind));
    const Rom inserted = rom_of(reinterpret_cast<const u8*>(bytes.data()), kind);
    const Picture picture{nullptr, 34, 210, true};
    const i32 last = below(2) ? NTSC_LAST_LINE : PAL_LAST_LINE;
    Console plain{states[0], inserted, picture, last, log, false}, beside{states[1], inserted, picture, last, other, false};
    FastConsole fast{fast_bus(beside, best_form()), nullptr, {}, {}};
    fast_decode(ops, inserted);
    insert_rom(fast, inserted, ops);
    for (u8& b : states[0].ram) b = u8(below(256));
    if (below(2)) jump_to_ram(states[0].ram, 128);
    const Controllers controllers = Controllers(below(CONTROLLERS));
    centre_controllers(states[0], controllers);
    plain.reset(u8(25 + below(75)));
    states[1] = states[0];
    for (int i = 0; i < 4; i++) {
        const u32 action = below(ACTIONS);
        const u8 switches = u8(below(4)), difficulty = u8(below(4));
        for (State& s : states) {
            set_controllers(s, action, controllers);
            set_switches(s, switches, difficulty);
        }
        const bool drawn = below(2);
        plain.run_frame(pictures[0], drawn);
        u8* const to = pictures[1] + (states[1].odd_frame ? 0 : 210 * WIDTH);
        const bool done = run_fast_frame(fast, beside, drawn ? FastCanvas{to, same, nullptr, nullptr} : FastCanvas{});
        if (!done) beside.run_frame(pictures[1], drawn);
        states[1].tia.settled = states[0].tia.settled;  // the fast build leaves what cannot be seen
        if (std::memcmp(states[0].ram, states[1].ram, 128) || std::memcmp(&states[0].tia, &states[1].tia, sizeof(Tia)) ||
            std::memcmp(pictures[0], pictures[1], sizeof pictures[0]) || states[0].cycle != states[1].cycle ||
            states[0].cpu.pc != states[1].cpu.pc) {
            std::fprintf(stderr, "the fast build differs from the plain core in frame %d of a cartridge of kind %d\n", i, kind);
            std::abort();
        }
    }
}

int roms(int count, char** paths, int files) {
    int refused = 0;
    for (int i = 0; i < count; i++) {
        const CartridgeKind kind = CartridgeKind(below(CART_KINDS));
        std::string rom;
        if (files && below(2)) {
            rom = read_file(paths[below(u32(files))]);
            mutate(rom, 0);
        } else {
            rom.resize(below(4) ? below(1u << (1 + below(16))) : cartridge_size(kind));
            for (char& b : rom) b = char(below(256));
            if (rom.size() > 16 && below(2)) jump_to_ram(rom, rom.size());
        }
        try {
            Emulator emulator(rom, kind, plain_game(JOYSTICKS), 1, 0);
            some_frames(rom, kind);
        } catch (const std::invalid_argument&) {
            refused++;
        }
    }
    return refused;
}

int states(int count, CartridgeKind kind, const std::string& rom) {
    Emulator emulator(rom, kind, plain_game(PADDLES), 1, 0.25f);
    emulator.load();
    const std::string good = emulator.save();
    int refused = 0;
    for (int i = 0; i < count; i++) {
        std::string bytes = good;
        switch (below(4)) {
            case 0: bytes.resize(below(1u << (1 + below(16)))); break;
            case 1: mutate(bytes, 0); break;
            default:  // within the console's state, where most of the sense is
                for (u32 n = 1 + below(4); n; n--) bytes[HEAD + below(sizeof(State))] = char(below(256));
        }
        try {
            emulator.restore(bytes);
            emulator.act(below(ACTIONS));
        } catch (const std::invalid_argument&) {
            refused++;
        }
    }
    return refused;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 3 ? argv[1] : "";
    if (what == "run" && argc == 5) {
        random_seed(chance, 1);
        return run(CartridgeKind(std::atoi(argv[2])), read_file(argv[3]), std::atoi(argv[4]));
    }
    const int count = argc > 3 ? std::atoi(argv[2]) : 0;
    if (argc > 3) random_seed(chance, u32(std::atoi(argv[3])));
    int refused = -1;
    if (what == "roms") refused = roms(count, argv + 4, argc - 4);
    if (what == "states" && argc == 6) refused = states(count, CartridgeKind(std::atoi(argv[4])), read_file(argv[5]));
    if (refused < 0) return 2;
    std::printf("%d of %d refused\n", refused, count);
    return refused > 0 && refused < count ? 0 : 1;  // both must happen, or nothing was tried
}
