// The states and results of environments in the device's memory, which the kernels read and write.
// | step     a thread an environment: the frames of an agent step                  -> env, outcome, logs of the last two frames
// | rows     a thread a picture: the registers at the start of its rows            -> rows of the last two frames
// | draw     a thread a row of a picture: bands of them in shared memory           -> observation
// | finish   a thread an environment, seldom: a step that `step` gave up, by the plain core    -> all of it
// | begin    a block an environment: where an episode ended, a start state         -> env, first observation
//
// In arrays of structures, word w of environment i is stored at [w][i], so that neighbouring threads read neighbouring
// words.
#pragma once
#include "../../core/philox.h"
#include "../../core/play.h"
#include "cpu.h"

namespace accel {

struct Env {
    Play play;
    EpisodeSteps episode;
    u32 seed, number;  // The random numbers depend on the seed and the episode's number.
    u32 age;           // Counts agent steps since the episode's first observation, up to `oldest`.
};

// The input of the draw kernel for a frame: the TIA at the start of the frame, and the number of writes in the log.
struct Shot {
    Tia tia;
    u32 writes;
};

static_assert(sizeof(Env) % 4 == 0 && sizeof(Shot) % 4 == 0 && sizeof(State) % 4 == 0, "structures of words");
constexpr u32 ENV_WORDS = sizeof(Env) / 4, SHOT_WORDS = sizeof(Shot) / 4, STATE_WORDS = sizeof(State) / 4;

template <class Structure>
HD void load_words(Structure& to, const u32* words, u32 n, u32 i) {
    for (u32 w = 0; w < sizeof(Structure) / 4; w++) reinterpret_cast<u32*>(&to)[w] = words[u64(w) * n + i];
}
template <class Structure>
HD void store_words(const Structure& from, u32* words, u32 n, u32 i) {
    for (u32 w = 0; w < sizeof(Structure) / 4; w++) words[u64(w) * n + i] = reinterpret_cast<const u32*>(&from)[w];
}

// Which frames an observation combines: bit 0 stands for the first frame, and bit 1 for the second. An observation
// without frames has only zeros.
enum Shown : u8 { SHOWS_ZEROS = 0, SHOWS_FIRST = 1, SHOWS_SECOND = 2, SHOWS_BOTH = 3, SHOWS_FINISHED = 4 };

// Which core played an environment's last step and why, or that the environment was skipped.
enum Code : u8 {
    ALL_FAST = 0,
    PLAIN = 1,  // The plain core has played the step, with the same result as the fast core.
    // The plain core played a step with a short frame. The lines below the short frame are black, because the previous
    // picture is not stored.
    UNKNOWN_PICTURE = 2,
    DAMAGED = 3,  // The state is impossible (damage_of), and the environment was skipped.
};

struct EnvArrays {
    u32 n;
    u32* envs;        // [ENV_WORDS, n]
    u32* shots;       // [2, SHOT_WORDS, n]
    FastWrite* logs;  // [n, 2, MOST_LOGGED]
    Registers* rows;  // [n, 2, height + RECORDED_ROWS]
    u8* shown;        // [n] Shown
    u8* code;         // `code` [n] is the Code of each environment's last step.
};

// Tables that all environments of a device share.
struct GameTables {
    const Game* game;
    const u8* rom;         // [rom_bytes + 2]
    const u8* code;        // The decoded ROM has rom_bytes + 2 bytes (see Program).
    const Stages* stages;  // [256]
    const u8* luminance;   // Maps each of the 256 colour bytes to a gray value.
    u32 rom_bytes;
    CartridgeKind kind;
};

// The caller's arrays for the results of a step, as in the Python class data.Step.
struct StepOutputs {
    u8 *frame, *final_frame;  // [n, height, width]
    u8* age;
    float* reward;
    u8 *terminated, *truncated, *ended, *valid;
};

struct Starts {
    const u32* envs;   // The start states are [rows, columns, ENV_WORDS], of which `play` is used.
    const u8* frames;  // The first observations are [rows, columns, height, width].
    // For each start state, the console at the end of the start state's frame, [rows, columns, STATE_WORDS]. The
    // pointer is null if no start state lies in the middle of a frame.
    const u32* continued;
    u32 rows, columns;  // A start state has a timer (row) and no-ops (column), or is cached (row).
};

// Returns the index of an episode's start state in the table of start states.
HD u64 start_of(const Starts& starts, u32 seed, u32 number) {
    const StartDraws drawn = start_draws(seed, number, starts.rows, starts.columns);
    return u64(drawn.row) * starts.columns + drawn.column;
}

struct StepArguments {
    EnvArrays envs;
    GameTables tables;
    Rules rules;
    Starts starts;
    const long long* action;  // `action` [n] has indices into `codes`; a negative index skips the environment.
    const i32* codes;         // `codes` [actions] has numbers of the 18 joystick actions.
    StepOutputs out;
    u32 oldest;  // The counter `age` saturates at `oldest`.
};

HD i32 last_line_of(const Game& game) { return game.pal ? PAL_LAST_LINE : NTSC_LAST_LINE; }

HD u32 observation_bytes(ObservationKind kind) { return u32(observation_height(kind) * observation_width(kind)); }

// Writes the results of a step of environment i, and updates its counters of steps.
HD void write_outcome(const StepArguments& a, Env& env, u32 i, double reward) {
    const Outcome o = end_step(env.episode, a.rules, env.play.progress, reward);
    env.age = env.age < a.oldest ? env.age + 1 : a.oldest;
    a.out.age[i] = u8(env.age);
    a.out.reward[i] = o.reward;
    a.out.terminated[i] = o.terminated, a.out.truncated[i] = o.truncated, a.out.ended[i] = o.ended;
    a.out.valid[i] = 1;
}

HD void write_skipped(const StepArguments& a, Env& env, u32 i) {
    env.age = 0;
    a.out.age[i] = 0;
    a.out.reward[i] = 0;
    a.out.terminated[i] = a.out.truncated[i] = a.out.ended[i] = a.out.valid[i] = 0;
}

}  // namespace accel
