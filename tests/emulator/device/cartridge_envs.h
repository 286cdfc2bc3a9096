// Environments of one cartridge for the programs that run under sanitizers: fuzz.cpp and sanitized_kernels.cpp.
#pragma once
#include "../../../accel_rl/emulator/device/host.h"
#include "../random_games.h"

namespace {

std::string full_size(std::string rom, CartridgeKind kind) {
    for (size_t i = 0; !rom.empty() && rom.size() < cartridge_size(kind); i++) rom.push_back(rom[i]);
    rom.resize(cartridge_size(kind));
    return rom;
}

void mutate(u8* bytes, size_t count, u32 most) {
    for (u32 n = 1 + below(most); n; n--) bytes[below(u32(count))] = u8(below(256));
}

// Environments of one cartridge, with arrays of the exact sizes that a step needs, so that the sanitizer finds
// overflows.
class Envs {
  public:
    Envs(const std::string& rom, CartridgeKind kind, const Play& start, u32 n, ObservationKind observation, double sticky)
        : game_(plain_game(Controllers(below(CONTROLLERS)))), rom_(full_size(rom, kind)), code_(program_code(rom_, kind)),
          table_(make_stage_table()), envs_(ENV_WORDS * n), shots_(2 * SHOT_WORDS * n), logs_(2 * MOST_LOGGED * n),
          rows_(2 * n * u32(game_.height + i32(RECORDED_ROWS))), shown_(n), why_(n), luminance_(256),
          frame_(n * observation_bytes(observation)), final_(frame_.size()), age_(n), flags_(4 * n), reward_(n), action_(n),
          codes_(ACTIONS), starts_(ENV_WORDS), start_frame_(observation_bytes(observation)) {
        rom_.resize(rom_.size() + 2), code_.resize(rom_.size());
        for (u32 i = 0; i < 256; i++) luminance_[i] = u8(i);
        for (u32 i = 0; i < ACTIONS; i++) codes_[i] = i32(i);
        Env env{};
        env.play = start;
        std::memcpy(starts_.data(), &env, sizeof env);
        for (u32 i = 0; i < n; i++) env.seed = i, store_words(env, envs_.data(), n, i);
        a = StepArguments{
            {n, envs_.data(), shots_.data(), logs_.data(), rows_.data(), shown_.data(), why_.data()},
            {&game_, bytes(rom_), bytes(code_), table_.of, luminance_.data(), cartridge_size(kind), kind},
            {4, 50, true, sticky, observation},
            {starts_.data(), start_frame_.data(), nullptr, 1, 1},
            action_.data(),
            codes_.data(),
            {frame_.data(), final_.data(), age_.data(), reward_.data(), &flags_[0], &flags_[n], &flags_[2 * n], &flags_[3 * n]},
            3};
    }
    Envs(const Envs&) = delete;

    void draw_actions() {
        for (long long& chosen : action_) chosen = i32(below(ACTIONS + 1)) - 1;
    }
    void step() {
        draw_actions();
        host_step(a);
        host_draw(a);
        host_finish(a);
        host_begin(a, false);
        for (u8 code : why_) count[code & 3]++;
    }
    // Makes a step in the GPU kernels, and repeats this step in the emulator's plain core. Returns the name of an array
    // that differs, or null.
    const char* step_beside_the_plain_core() {
        const std::vector<u32> before = envs_;
        step();
        const std::vector<u32> states = canonical();
        const std::vector<u8> codes = why_, frames = frame_, finals = final_, flags = flags_, ages = age_;
        const std::vector<float> rewards = reward_;
        envs_ = before;
        for (u32 i = 0; i < a.envs.n; i++) shown_[i] = codes[i] == ALL_FAST && action_[i] >= 0 ? SHOWS_FINISHED : SHOWS_ZEROS;
        host_finish(a);
        host_begin(a, false);
        const std::vector<u32> plain = canonical();
        for (u32 i = 0; i < a.envs.n; i++) {
            if (shown_[i] != SHOWS_FINISHED) continue;
            for (u32 w = 0; w < ENV_WORDS; w++)
                if (states[w * a.envs.n + i] != plain[w * a.envs.n + i]) return "the state";
            const u32 bytes = observation_bytes(a.rules.observation);
            const bool known = why_[i] != UNKNOWN_PICTURE;
            if (known && std::memcmp(&frames[i * bytes], &frame_[i * bytes], bytes)) return "the picture";
            if (known && std::memcmp(&finals[i * bytes], &final_[i * bytes], bytes)) return "the last picture";
        }
        if (rewards != reward_ || ages != age_ || flags != flags_) return "the outcome";
        for (u32 i = 0; i < a.envs.n; i++)  // Steps that only the plain core can play were not repeated.
            if (shown_[i] != SHOWS_FINISHED)
                for (u32 w = 0; w < ENV_WORDS; w++) envs_[w * a.envs.n + i] = states[w * a.envs.n + i];
        return nullptr;
    }
    // Returns the states in a canonical form: GPU lanes and the emulator's plain core store the flags N and Z, and the
    // clock after a frame's end, differently.
    std::vector<u32> canonical() const {
        std::vector<u32> result = envs_;
        for (u32 i = 0; i < a.envs.n; i++) {
            Env env;
            load_words(env, envs_.data(), a.envs.n, i);
            env.play.state.cpu.n &= 0x80, env.play.state.cpu.z = env.play.state.cpu.z != 0;
            env.play.state.tia.settled = 0;
            store_words(env, result.data(), a.envs.n, i);
        }
        return result;
    }
    void mutate_states() {
        for (u32 i = 0; i < a.envs.n; i++) {
            Env env;
            load_words(env, envs_.data(), a.envs.n, i);
            mutate(reinterpret_cast<u8*>(&env), sizeof env, 3);
            store_words(env, envs_.data(), a.envs.n, i);
        }
    }

    // Marks the state of environment i as within a frame, so that the emulator's plain core plays the next step.
    void interrupt(u32 i) {
        Env env;
        load_words(env, envs_.data(), a.envs.n, i);
        env.play.state.partial = 1;
        store_words(env, envs_.data(), a.envs.n, i);
    }
    bool equals(const Envs& other) const {
        return envs_ == other.envs_ && shown_ == other.shown_ && why_ == other.why_ && frame_ == other.frame_ &&
               final_ == other.final_ && age_ == other.age_ && flags_ == other.flags_ && reward_ == other.reward_;
    }

    StepArguments a;
    u64 count[4] = {0, 0, 0, 0};  // steps by code

  private:
    static const u8* bytes(const std::string& s) { return reinterpret_cast<const u8*>(s.data()); }

    Game game_;
    std::string rom_, code_;
    StageTable table_;
    std::vector<u32> envs_, shots_;
    std::vector<FastWrite> logs_;
    std::vector<Registers> rows_;
    std::vector<u8> shown_, why_, luminance_, frame_, final_, age_, flags_;
    std::vector<float> reward_;
    std::vector<long long> action_;
    std::vector<i32> codes_;
    std::vector<u32> starts_;
    std::vector<u8> start_frame_;
};

// Resets a console with a random timer value, and plays `frames` frames.
void power_on(State& state, const std::string& rom, CartridgeKind kind, u32 frames) {
    TiaLog log{};
    Console console{
        state, rom_of(reinterpret_cast<const u8*>(rom.data()), kind), Picture{nullptr, 34, 210, true}, NTSC_LAST_LINE, log,
        false};
    console.reset(u8(25 + below(75)));
    for (u32 frame = 0; frame < frames; frame++) console.run_frame(nullptr, false);
}

Play loaded(const std::string& rom, CartridgeKind kind) {
    Emulator emulator(rom, kind, plain_game(JOYSTICKS), 1, 0);
    emulator.load();
    return emulator.play();
}

}  // namespace
