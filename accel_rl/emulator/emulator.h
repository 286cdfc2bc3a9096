// An emulator on a CPU: a console, its game, two pictures and two random number generators. The state can be saved as
// bytes.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/fast/frame.h"
#include "decoded_rom.h"
#include "snapshot.h"
#include "stretch_x86.h"
#include "translation.h"

namespace accel {

class Emulator {
  public:
    Emulator(const std::string& rom, CartridgeKind kind, const Game& game, u32 sticky_seed, float sticky)
        : game_(game), default_steps_(steps_of(game)), bytes_(rom.begin(), rom.end()), pixels_(2 * size_t(game.height) * WIDTH),
          console_{snap_.state,
                   Rom{},
                   Picture{nullptr, game.first_line, game.height, game.hmove_blanks != 0},
                   game.pal ? PAL_LAST_LINE : NTSC_LAST_LINE,
                   log_,
                   false},
          fast_console_{fast_bus(console_, best_form()), nullptr, {}, {}} {
        if (kind >= CART_KINDS) throw std::invalid_argument("cartridge kind " + std::to_string(kind) + " is unknown");
        if (rom.empty() || rom.size() > cartridge_size(kind) + 256)
            throw std::invalid_argument("the ROM has " + std::to_string(rom.size()) + " bytes; this kind of cartridge has " +
                                        std::to_string(cartridge_size(kind)));
        for (size_t i = 0; bytes_.size() < cartridge_size(kind); i++) bytes_.push_back(bytes_[i]);
        bytes_.resize(cartridge_size(kind));
        console_.rom = rom_of(bytes_.data(), kind);
        checksum_ = checksum(bytes_.data(), bytes_.size());
        decoded_ = decoded_rom(console_.rom, bytes_.size(), checksum_);
        insert_rom(fast_console_, console_.rom, decoded_->ops.data());
        random_seed(snap_.sticky, sticky_seed);
        snap_.sticky_probability = sticky;
    }
    Emulator(const Emulator&) = delete;  // The caller of a new emulator must first call load().

    // Powers the console on as ale-py does: plays 60 frames, in which ale-py detects the TV format, and then resets in
    // the default mode.
    void load() {
        const Steps chosen = steps_of(game_);
        const u8 difficulty = snap_.difficulty;
        set_steps(default_steps_);
        snap_.difficulty = 0;
        random_seed(console_random_, CONSOLE_SEED);
        snap_.console_draws = 0;
        snap_.frame = 0;
        std::memset(&snap_.state, 0, sizeof(State));
        dpc_start(snap_.state.cartridge.dpc);
        for (u8& b : snap_.state.ram) b = u8(draw());
        fill_cartridge();
        draw();
        power_cycle();
        for (int i = 0; i < 60; i++) frame(0, NO_SWITCH);
        loaded_ = snap_.state;
        draw();
        reset();
        set_steps(chosen);
        snap_.difficulty = difficulty;
    }

    void reset() {
        power_cycle();
        start_game();
    }

    // Resets the console to the state that load() has reached after 60 frames, with black pictures, so that the result
    // depends only on `timer` (25 to 99), the value of the RIOT's timer.
    void restart(u8 timer) {
        snap_.state = loaded_;
        snap_.frame = 0;
        forget_pictures();
        centre_controllers(snap_.state, game_.controllers);
        console_.reset(timer);
        start_game();
    }

    i32 act(u32 action) { return act_drawn(action, nullptr, nullptr); }

  protected:
    // Runs one frame. If `gray` and `canvas` are given, draws the picture in gray, and otherwise only when the picture
    // is read.
    i32 act_drawn(u32 action, GrayFrame* gray, const FastCanvas* canvas) {
        if (action >= ACTIONS) throw std::invalid_argument("action " + std::to_string(action) + "; allowed are 0 to 17");
        if (snap_.progress.over) return 0;
        const u32 played = played_action(game_, stuck(action));
        frame(played, NO_SWITCH, gray, canvas, last_turn_);
        return end_frame(snap_, game_);
    }

  public:
    void frame(u32 action, u8 switches, GrayFrame* gray = nullptr, const FastCanvas* canvas = nullptr, i32 turn = PADDLE_TURN) {
        set_inputs(snap_.state, game_, action, switches, snap_.difficulty, turn);
        if (fast_) update(gray, canvas);
        else console_.run_frame(pixels_.data(), draws_);
    }

    // Seeds the random numbers of sticky actions, which are then those of ale-py with this seed.
    void set_sticky(u32 seed, float probability) {
        random_seed(snap_.sticky, seed);
        snap_.sticky_probability = probability;
    }
    const Random& sticky() const { return snap_.sticky; }
    void set_sticky(const Random& sticky) { snap_.sticky = sticky; }
    void set_turn(i32 ohms) { turn_ = ohms; }  // By which the next actions turn a paddle per frame
    void set_last_turn(i32 ohms) { last_turn_ = ohms; }
    i32 last_turn() const { return last_turn_; }
    void set_difficulty(u8 d) { snap_.difficulty = d; }
    void set_steps(const Game& game) { set_steps(steps_of(game)); }  // The next reset chooses the mode of `game`.
    void set_draws(bool on) { draws_ = on; }
    bool fast() const { return fast_; }
    void set_fast(bool on) {  // Without the fast core, the plain core runs the same frames.
        for (u32 b = 0; b < 2; b++) catch_up(b);
        fast_ = on;
    }

    const u8* ram() const { return snap_.state.ram; }
    void set_ram(u32 address, u8 value) { snap_.state.ram[address & 0x7F] = value; }
    const u8* screen() {
        catch_up(snap_.state.odd_frame);
        return picture(snap_.state.odd_frame);
    }
    i32 height() const { return game_.height; }
    bool over() const { return snap_.progress.over; }
    i32 lives() const { return snap_.progress.lives; }
    u32 frames() const { return snap_.frame; }
    u32 episode_frames() const { return snap_.episode_frame; }
    const State& state() const { return snap_.state; }
    const Play& play() const { return snap_; }
    const Rom& rom() const { return console_.rom; }

    template <class Before>
    void traced_frame(u32 action, Before before) {
        set_inputs(snap_.state, game_, played_action(game_, action), NO_SWITCH, snap_.difficulty);
        for (u32 b = 0; b < 2; b++) catch_up(b);
        console_.run_frame(pixels_.data(), true, before);
    }

    // Plays `frames` frames with random actions to find the ROM's instructions, and returns the ROM as C++
    // (translation.h). To save time, instructions are recorded only in the first `recorded` frames, and then in 10 of
    // every 200 frames.
    std::string translated(u32 recorded, u32 frames) {
        Translator translator(console_.rom, decoded_->ops.data());
        Random actions{};
        random_seed(actions, 1);
        for (u32 i = 0; i < frames; i++) {
            if (snap_.progress.over) reset();
            translator.begin_frame();
            const u32 action = random_draw(actions) % ACTIONS;
            if (i < recorded || i % 200 < 10) traced_frame(action, [&](const Console& console) { translator.record(console); });
            else frame(played_action(game_, action), NO_SWITCH);
            end_frame(snap_, game_);
        }
        return translator.source();
    }
    bool is_translated() const { return translates_ && decoded_->translated.load() != nullptr; }
    // If `on` is false, this emulator interprets the ROM even if the translated ROM, which all emulators of a game
    // share, is loaded.
    void set_translates(bool on) { translates_ = on; }
    // `address` is the address of run_translated in a library that rom_compiler.py has compiled.
    void insert_translation(size_t address) {
        decoded_->translated.store(reinterpret_cast<FastEnd (*)(FastConsole&)>(address), std::memory_order_release);
    }

    std::string save() {
        for (u32 b = 0; b < 2; b++) catch_up(b);
        std::string out;
        const u32 head[5] = {MAGIC, VERSION, console_.rom.kind, checksum_, mode_checksum()};
        out.append(reinterpret_cast<const char*>(head), sizeof head);
        out.append(reinterpret_cast<const char*>(&snap_), sizeof snap_);
        out.append(reinterpret_cast<const char*>(pixels_.data()), pixels_.size());
        return out;
    }

    void restore(const std::string& bytes) {
        u32 head[5];
        const size_t expected = sizeof head + sizeof snap_ + pixels_.size();
        if (bytes.size() < sizeof head)
            throw std::invalid_argument("the state is cut off: " + std::to_string(bytes.size()) + " bytes");
        std::memcpy(head, bytes.data(), sizeof head);
        if (head[0] != MAGIC) throw std::invalid_argument("these bytes are no emulator state");
        if (head[1] != VERSION)
            throw std::invalid_argument("the state has version " + std::to_string(head[1]) + "; this emulator reads " +
                                        std::to_string(VERSION));
        if (head[2] != console_.rom.kind || head[3] != checksum_) throw std::invalid_argument("the state is of another ROM");
        if (head[4] != mode_checksum()) throw std::invalid_argument("the state is of another mode of the game");
        if (bytes.size() != expected)
            throw std::invalid_argument("the state has " + std::to_string(bytes.size()) + " bytes; expected " +
                                        std::to_string(expected));
        Snapshot s;
        std::memcpy(static_cast<void*>(&s), bytes.data() + sizeof head, sizeof s);
        check_snapshot(s, console_.rom);
        snap_ = s;
        std::memcpy(pixels_.data(), bytes.data() + sizeof head + sizeof s, pixels_.size());
        log_.count = 0;
        late_[0] = late_[1] = false;
        random_seed(console_random_, CONSOLE_SEED);
        for (u32 i = 0; i < snap_.console_draws; i++) random_draw(console_random_);
    }

    // Sets the state of console and game, and makes both pictures black.
    void set_play(const Play& play) {
        const char* const damage = damage_of(play, console_.rom);
        require(!damage, damage);
        static_cast<Play&>(snap_) = play;
        forget_pictures();
    }

  private:
    using Steps = std::vector<Step>;
    static Steps steps_of(const Game& game) { return Steps(game.step, game.step + game.steps); }
    void set_steps(const Steps& steps) {
        game_.steps = u8(steps.size());
        std::copy(steps.begin(), steps.end(), game_.step);
    }

    void forget_pictures() {
        std::fill(pixels_.begin(), pixels_.end(), u8(0));
        log_.count = 0;
        late_[0] = late_[1] = false;
    }

    static constexpr u32 MAGIC = 0x454C5241;  // "ARLE"
    static constexpr u32 VERSION = 8;

    // A checksum of the game's mode: of the inputs that a reset plays in this mode. Padding bytes would make the
    // checksum undefined, but the struct Step has none.
    u32 mode_checksum() const { return checksum(game_.step, game_.steps * sizeof(Step)); }

    struct Palette {
        u8 colour[256];
        Palette() {
            for (u32 i = 0; i < 256; i++) colour[i] = u8(i);
        }
    };
    static inline const Palette SAME;

    u8* picture(u32 b) { return pixels_.data() + (b ? size_t(game_.height) * WIDTH : 0); }
    FastCanvas colours(u32 b) { return FastCanvas{picture(b), SAME.colour, nullptr, nullptr}; }

    // Runs one frame by the fast core. If the picture is not requested, it is not drawn (`late_`), and the state before
    // the frame is stored. The frame is emulated again if its picture is needed later: when the picture is read, or is
    // partly visible below a short frame.
    void update(GrayFrame* gray, const FastCanvas* canvas) {
        State& s = snap_.state;
        fast_console_.translated = translates_ ? decoded_->translated.load(std::memory_order_acquire) : nullptr;
        const State before = s;
        const u32 b = s.partial ? s.odd_frame : s.odd_frame ^ 1u;
        const bool keeps = !canvas && draws_ && keeps_;
        if (run_fast_frame(fast_console_, console_, canvas ? *canvas : keeps ? colours(b) : FastCanvas{})) {
            if (3 * s.cycle >= fast_console_.tia.stop) {
                late_[b] = !keeps;
                if (!keeps) before_[b] = before;
                return;
            }
            s = before;
        }
        catch_up(b);
        if (!run_fast_frame(fast_console_, console_, colours(b))) console_.run_frame(pixels_.data(), true);
        if (gray) copy_gray(*gray, canvas->palette);
    }

    void catch_up(u32 b) {
        if (!late_[b]) return;
        late_[b] = false;
        const State now = snap_.state;
        snap_.state = before_[b];
        run_fast_frame(fast_console_, console_, colours(b));
        snap_.state = now;
    }

  protected:
    void copy_gray(GrayFrame& gray, const u8* table) {
        const u8* from = screen();
        for (i32 i = 0; i < game_.height * WIDTH; i++) gray.pixels[i] = table[from[i]];
        for (i32 y = 0; y < game_.height; y++) gray.source[y] = u16(y);
    }

  private:
    u32 draw() {
        snap_.console_draws++;
        return random_draw(console_random_);
    }

    void count_frame() {
        snap_.frame++;
        snap_.episode_frame++;
    }

    // Returns the last action with the probability of sticky actions, and otherwise `action`.
    u32 stuck(u32 action) {
        const double drawn = random_draw(snap_.sticky) / 4294967296.0;
        random_draw(snap_.sticky);  // ale-py also draws a random number for the second player's action.
        if (drawn >= snap_.sticky_probability) snap_.last_action = u8(action), last_turn_ = turn_;
        return snap_.last_action;
    }

    void run_step(const Step& step) {
        const u8& moving = snap_.state.ram[step.moves & 0x7F];
        const u8 before = moving;
        for (u32 n = 0; n < MOST_PRESSES; n++) {
            if (step.until.count && step.until.holds(snap_.state.ram)) return;
            for (i32 i = 0; i < step.frames + step.gap; i++) {
                const u32 action = i < step.frames ? step.action : 0;
                frame(step.sticks ? stuck(action) : action, i < step.frames ? step.switches : u8(NO_SWITCH));
                if (step.sticks || i >= step.frames) count_frame();  // ale-py counts some frames of a reset.
            }
            if (step.switches & RESET) snap_.last_action = 0;
            if (step.moves ? moving != before : !step.until.count) return;
        }
    }

    // Plays the frames and inputs that start the game after a power cycle.
    void start_game() {
        snap_.last_action = 0;
        snap_.episode_frame = 0;
        for (int i = 0; i < 60; i++) frame(0, NO_SWITCH);
        for (u32 i = 0; i < game_.steps; i++) run_step(game_.step[i]);
        start_progress(game_, snap_.progress, snap_.state.ram);
        snap_.last_action = 0;
    }

    // Fills the RAM of a cartridge that has RAM with random bytes.
    void fill_cartridge() {
        if (console_.rom.kind != CART_F8SC && console_.rom.kind != CART_F6SC) return;
        for (u8& b : snap_.state.cartridge.ram) b = u8(draw());
    }

    void power_cycle() {
        centre_controllers(snap_.state, game_.controllers);
        console_.reset(u8(25 + draw() % 75));
        fill_cartridge();
    }

    Game game_;
    const Steps default_steps_;
    std::vector<u8> bytes_;
    std::vector<u8> pixels_;
    Snapshot snap_{};
    TiaLog log_{};
    Console console_;
    std::shared_ptr<DecodedRom> decoded_;
    FastConsole fast_console_;
    State before_[2]{};
    State loaded_{};  // load() ends with the console's state `loaded_`, after 60 frames.
    bool late_[2] = {false, false};
    Random console_random_{};
    u32 checksum_ = 0;
    bool draws_ = true, fast_ = true, translates_ = true;
    i32 turn_ = PADDLE_TURN, last_turn_ = PADDLE_TURN;  // `last_turn_` belongs to the last action, which may stick.

  protected:
    bool keeps_ = true;  // With `keeps_`, every picture is drawn immediately instead of on demand.
};

}  // namespace accel
