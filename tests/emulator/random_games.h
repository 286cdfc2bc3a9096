// Helpers of the programs that run under sanitizers: random numbers, ROM files, the rules of a game.
#pragma once
#include <fstream>
#include <iterator>

#include "../../accel_rl/emulator/emulator.h"

using namespace accel;

namespace {

Random chance{};
u32 below(u32 n) { return random_draw(chance) % n; }

std::string read_file(const char* path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

Game plain_game(Controllers controllers) {
    Game game{};
    game.controllers = controllers;
    game.first_line = 34;
    game.height = 210;
    game.hmove_blanks = 1;
    return game;
}

}  // namespace
