// Compares the GPU kernels with the emulator's plain core (tia_settle.h, observation.h) on random logs of TIA writes.
// Compared are the TIA registers and collisions of the step kernel, and the observations of the draw kernel.
//
// |   pictures ROUNDS
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../../accel_rl/emulator/device/host.h"
#include "drawn_tia.h"

using namespace accel;

namespace {

std::vector<FastWrite> drawn_log(i32 cycles) {
    static const u8 registers[] = {
#define REGISTER(reg) reg,
        FAST_REGISTERS(REGISTER)
#undef REGISTER
    };
    std::vector<FastWrite> log;
    const u32 gap = 12 + below(200);
    const bool dark = below(8) == 0;
    for (i32 cycle = i32(below(20)); cycle < cycles && log.size() < MOST_LOGGED; cycle += i32(3 + below(gap))) {
        const u32 reg = registers[below(sizeof registers)];
        const u32 value = reg == VBLANK ? 2 * u32(dark && below(2)) : below(3) ? below(256) : 0x60 + 0x10 * below(2);
        log.push_back(FastWrite::of(cycle, reg, value));
    }
    return log;
}

class Environment {
  public:
    Environment() {
        game.first_line = i32(10 + below(40));
        kind = ObservationKind(below(OBSERVATION_KINDS));
        game.height = kind == SUBSAMPLE ? i32(160 + below(MOST_ROWS - 160 + 1)) : ROWS;
        game.hmove_blanks = u8(below(2));
        shown = u8(1 + below(3));
        rows.resize(2 * size_t(game.height + i32(RECORDED_ROWS)));
        for (u8& gray : luminance) gray = u8(below(256));
        frame.resize(observation_bytes(kind));
    }

    // Draws a random frame `slot` by the GPU kernels and by the emulator's plain core. Returns the name of what
    // differs, or null.
    const char* play(u32 slot) {
        Tia plain = drawn_tia(), lane;
        plain.settled = plain.frame_clock;
        const std::vector<FastWrite> log = drawn_log(LINE_CLOCKS / 3 * (game.first_line + game.height + 2));
        Shot shot{plain, u32(log.size())};
        store_words(shot, shots.data() + slot * SHOT_WORDS, 1, 0);
        std::copy(log.begin(), log.end(), logs.begin() + slot * MOST_LOGGED);
        lane = plain;
        LaneTia tia{lane, game.first_line, game.height};
        tia.begin_frame();
        std::vector<u8> pixels(size_t(game.height * WIDTH));
        const Picture picture{pixels.data(), game.first_line, game.height, game.hmove_blanks != 0};
        const FastWrite* unsettled = log.data();
        for (const FastWrite& w : log) {
            const i32 clock = 3 * w.cycle();
            draw_until(plain, picture, clock + write_delay(w.reg(), line_clock(plain, clock)));
            apply_write(plain, picture, w.reg(), w.value(), clock);
            if (below(20)) continue;
            const FastWrite* const next = &w + 1;
            const bool reads = next == log.data() + log.size() || 3 * next->cycle() > clock + 20;
            if (reads) {
                draw_until(plain, picture, clock + 20);
                tia.settle(unsettled, u32(next - unsettled), clock + 20);
                if (lane.collisions != plain.collisions) return "collisions that are read";
            } else {
                tia.settle_writes(unsettled, u32(next - unsettled));
            }
            unsettled = next;
        }
        const i32 end = plain.frame_clock + (game.first_line + game.height + 3) * LINE_CLOCKS;
        draw_until(plain, picture, end);
        tia.settle(unsettled, u32(log.data() + log.size() - unsettled), end);
        tia.end_frame();
        for (size_t at = 0; at < pixels.size(); at++) gray[slot].pixels[at] = luminance[pixels[at]];
        for (i32 y = 0; y < game.height; y++) gray[slot].source[y] = u16(y);
        if (lane.collisions != plain.collisions) return "collisions";
        return bytes_differ(&lane, &plain, sizeof lane) ? "registers" : nullptr;
    }

    bool observes_the_same() {
        StepArguments a{};
        a.envs = EnvArrays{1, nullptr, shots.data(), logs.data(), rows.data(), &shown, nullptr};
        a.tables.game = &game, a.tables.luminance = luminance;
        a.rules.observation = kind;
        u8 ended = 0;
        a.out.frame = frame.data(), a.out.ended = &ended;
        host_draw(a);
        static Observer observer;
        observer = Observer{};
        observer.kind = kind, observer.rows = game.height;
        std::vector<u8> expected(frame.size());
        observer.observe(gray[shown & 1 ? 0 : 1], shown == SHOWS_BOTH ? &gray[1] : nullptr, expected.data());
        return frame == expected;
    }

  private:
    Game game{};
    ObservationKind kind;
    u8 shown, luminance[256];
    std::vector<u32> shots = std::vector<u32>(2 * SHOT_WORDS);
    std::vector<FastWrite> logs = std::vector<FastWrite>(2 * MOST_LOGGED);
    std::vector<Registers> rows;
    std::vector<u8> frame;
    GrayFrame gray[2];
};

}  // namespace

int main(int argc, char** argv) {
    random_seed(chance, 1);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
    for (int round = 0; round < rounds; round++) {
        Environment environment;
        const char* differs = nullptr;
        for (u32 slot = 0; slot < 2 && !differs; slot++) differs = environment.play(slot);
        if (!differs && !environment.observes_the_same()) differs = "the observation";
        if (!differs) continue;
        std::printf("round %d: %s\n", round, differs);
        return 1;
    }
    std::printf("%d pictures\n", 2 * rounds);
    return 0;
}
