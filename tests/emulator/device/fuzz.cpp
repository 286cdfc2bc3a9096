// Runs the CPU build of the kernels on whole games, mutated cartridges and mutated states. The kernels must set a
// result code for each environment, and must never crash. test_fuzz.py builds the program with sanitizers.
//
// |   fuzz run KIND ROM STEPS         a game, random actions
// |   fuzz roms COUNT SEED [ROM...]   cartridges of random bytes, or the ROMs with some bytes changed
// |   fuzz states COUNT SEED KIND ROM states of it with bytes changed
#include <cstdio>
#include <cstdlib>

#include "cartridge_envs.h"

using namespace accel;

namespace {

u64 total[4] = {0, 0, 0, 0};
void add(const Envs& envs) {
    for (u32 code = 0; code < 4; code++) total[code] += envs.count[code];
}

// Plays a game. Returns whether some environments used the kernels' fast path, and no environment's state was damaged.
bool run(CartridgeKind kind, const std::string& rom, int steps) {
    Envs envs(rom, kind, loaded(rom, kind), 33, ObservationKind(below(OBSERVATION_KINDS)), 0.25);
    for (int t = 0; t < steps; t++) envs.step();
    add(envs);
    return total[ALL_FAST] && !total[DAMAGED];
}

Play powered_on(const std::string& rom, CartridgeKind kind) {
    Play play{};
    for (u8& b : play.state.ram) b = u8(below(256));
    centre_controllers(play.state, Controllers(below(CONTROLLERS)));
    power_on(play.state, rom, kind, 0);
    return play;
}

bool roms(int count, char** paths, int files) {
    for (int i = 0; i < count; i++) {
        const CartridgeKind kind = CartridgeKind(below(CART_KINDS));
        std::string rom(cartridge_size(kind), 0);
        if (files && below(2)) {
            rom = full_size(read_file(paths[below(u32(files))]), kind);
            mutate(reinterpret_cast<u8*>(&rom[0]), rom.size(), 8);
        } else {
            for (char& b : rom) b = char(below(256));
        }
        Envs envs(rom, kind, powered_on(rom, kind), 2, ObservationKind(below(OBSERVATION_KINDS)), below(2) ? 0.25 : 0);
        for (int t = 0; t < 2; t++) envs.step();
        add(envs);
    }
    return total[ALL_FAST] && total[PLAIN] && !total[DAMAGED];
}

bool states(int count, CartridgeKind kind, const std::string& rom) {
    const Play start = loaded(rom, kind);
    for (int i = 0; i < count; i += 32) {
        Envs envs(rom, kind, start, 32, ObservationKind(below(OBSERVATION_KINDS)), below(2) ? 0.25 : 0);
        envs.mutate_states();
        for (int t = 0; t < 2; t++) envs.step();
        add(envs);
    }
    return total[ALL_FAST] && total[PLAIN] && total[DAMAGED];
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 3 ? argv[1] : "";
    const int count = argc > 3 ? std::atoi(argv[2]) : 0;
    random_seed(chance, argc > 3 && what != "run" ? u32(std::atoi(argv[3])) : 1);
    bool complete = false;
    if (what == "run" && argc == 5) complete = run(CartridgeKind(count), read_file(argv[3]), std::atoi(argv[4]));
    else if (what == "roms") complete = roms(count, argv + 4, argc - 4);
    else if (what == "states" && argc == 6) complete = states(count, CartridgeKind(std::atoi(argv[4])), read_file(argv[5]));
    else return 2;
    std::printf("steps: %llu fast, %llu by the plain core, %llu with an unknown picture, %llu of damaged states\n",
                total[ALL_FAST], total[PLAIN], total[UNKNOWN_PICTURE], total[DAMAGED]);
    return complete ? 0 : 1;
}
