// Python binding of the class Emulator. The bindings release the GIL while frames are run.
#include <pybind11/stl.h>

#include <atomic>
#include <memory>
#include <optional>

#include "device/bindings.h"
#include "vector_binding.h"

namespace py = pybind11;
using namespace accel;

namespace {

Condition condition_of(const py::tuple& source) {
    Condition c{};
    c.address = u8(source[0].cast<int>());
    for (int v : source[1].cast<std::vector<int>>()) c.values[(v & 255) >> 3] |= u8(1 << (v & 7));
    return c;
}

Clause clause_of(const py::list& source) {
    Clause c{};
    if (source.size() > 4) throw std::invalid_argument("a clause has more than 4 conditions");
    for (auto item : source) c.all[c.count++] = condition_of(item.cast<py::tuple>());
    return c;
}

// Sets the inputs that a reset plays, as tuples with the fields of Step (game.h).
void set_steps(Game& g, const py::list& steps) {
    if (steps.size() > MOST_STEPS) throw std::invalid_argument("a reset has more than " + std::to_string(MOST_STEPS) + " steps");
    for (auto item : steps) {
        const auto s = item.cast<py::tuple>();
        Step& step = g.step[g.steps++];
        step.action = u8(s[0].cast<int>());
        if (step.action >= ACTIONS) throw std::invalid_argument("a step's action is not one of the 18");
        step.switches = u8(s[1].cast<int>());
        step.frames = u8(s[2].cast<int>());
        step.gap = u8(s[3].cast<int>());
        step.sticks = s[4].cast<bool>();
        step.until = clause_of(s[5].cast<py::list>());
        step.moves = u8(s[6].cast<int>());
    }
}

Game game_of(const py::dict& d) {
    Game g{};
    auto points = d["score"].cast<std::vector<std::pair<int, std::vector<int>>>>();
    auto lives = d["lives"].cast<std::pair<int, std::vector<int>>>();
    auto over = d["over"].cast<py::list>();
    if (points.size() > 6 || over.size() > 4) throw std::invalid_argument("the game's tables are too long");
    for (auto& [address, values] : points) {
        ScoreByte& s = g.score[g.score_bytes++];
        s.address = u8(address);
        for (size_t v = 0; v < 256; v++) s.points[v] = values.at(v);
    }
    g.first_bytes = u8(d["first_bytes"].cast<int>());
    g.per_change = d["per_change"].cast<int>();
    g.unscored = clause_of(d["unscored"].cast<py::list>());
    g.scored = clause_of(d["scored"].cast<py::list>());
    g.restarts = clause_of(d["restarts"].cast<py::list>());
    g.restart_score = d["restart_score"].cast<int>();
    g.wrap = d["wrap"].cast<int>();
    g.unpaid = d["unpaid"].cast<int>();
    g.rolls_over = d["rolls_over"].cast<int>();
    g.over_when_scored = d["over_when_scored"].cast<bool>();
    g.least = d["least"].cast<int>();
    g.most = d["most"].cast<int>();
    g.lives_address = u8(lives.first);
    for (size_t v = 0; v < 256; v++) g.lives[v] = i16(lives.second.at(v));
    auto more = d["more_lives"].cast<std::pair<int, std::vector<int>>>();
    g.more_lives_address = u8(more.first);
    for (size_t v = 0; v < 256; v++) g.more_lives[v] = i16(more.second.at(v));
    g.lives_at_reset = i16(d["lives_at_reset"].cast<int>());
    g.lives_when = clause_of(d["lives_when"].cast<py::list>());
    g.lives_else = i16(d["lives_else"].cast<int>());
    g.lives_latch = d["lives_latch"].cast<bool>();
    g.loss_when = clause_of(d["loss_when"].cast<py::list>());
    g.lives_fall = d["lives_fall"].cast<bool>();
    auto last_life = d["last_life"].cast<std::vector<int>>();
    if (last_life.size() == 2) {
        g.has_last_life = 1;
        g.last_life[0] = u8(last_life[0]);
        g.last_life[1] = u8(last_life[1]);
    }
    g.no_lives_when_over = d["no_lives_when_over"].cast<bool>();
    g.no_reward_when_over = d["no_reward_when_over"].cast<bool>();
    g.over_after = clause_of(d["over_after"].cast<py::list>());
    for (auto clause : over) g.over[g.clauses++] = clause_of(clause.cast<py::list>());
    auto full = d["full"].cast<std::pair<int, int>>();
    g.full_from = u8(full.first);
    g.full_bytes = u8(full.second);
    set_steps(g, d["steps"].cast<py::list>());
    g.fire_is_noop = d["fire_is_noop"].cast<bool>();
    g.controllers = Controllers(d["controllers"].cast<int>());
    g.pal = d["pal"].cast<bool>();
    g.first_line = d["first_line"].cast<int>();
    g.height = d["height"].cast<int>();
    g.hmove_blanks = d["hmove_blanks"].cast<bool>();
    return g;
}

void check_game(int kind, const Game& g) {
    if (kind < 0 || kind >= CART_KINDS) throw std::invalid_argument("cartridge kind " + std::to_string(kind) + " is unknown");
    if (g.height < 1 || g.height > 260 || g.first_line < 0 || g.first_line > 100)
        throw std::invalid_argument("the picture's lines are impossible");
}

std::unique_ptr<Emulator> make(const py::bytes& rom, int kind, const py::dict& game, u32 seed, float sticky, bool fast) {
    const std::string bytes = rom;
    const Game g = game_of(game);
    check_game(kind, g);
    py::gil_scoped_release release;
    auto emulator = std::make_unique<Emulator>(bytes, CartridgeKind(kind), g, seed, sticky);
    if (!fast) emulator->set_fast(false);
    emulator->load();
    return emulator;
}

py::array_t<u8> screen(Emulator& e) {
    py::array_t<u8> out({e.height(), WIDTH});
    std::memcpy(out.mutable_data(), e.screen(), size_t(e.height()) * WIDTH);
    return out;
}

void check_pixels(const Emulator& e, const py::array_t<u8>& out, int channels) {
    const py::ssize_t wanted = py::ssize_t(e.height()) * WIDTH * channels;
    if (out.size() != wanted || !(out.flags() & py::array::c_style))
        throw std::invalid_argument("the array holds " + std::to_string(out.size()) + " bytes; the picture has " +
                                    std::to_string(wanted));
}

// Maps the picture's colour bytes to gray or RGB by a table of 256 entries of `channels` bytes.
py::array_t<u8> mapped(Emulator& e, py::array_t<u8, py::array::c_style> table, int channels) {
    if (table.size() != 256 * channels) throw std::invalid_argument("the palette has the wrong size");
    py::array_t<u8> out = channels == 1 ? py::array_t<u8>({e.height(), WIDTH}) : py::array_t<u8>({e.height(), WIDTH, channels});
    check_pixels(e, out, channels);
    map_colors(out.mutable_data(), e.screen(), table.data(), size_t(channels), size_t(e.height()));
    return out;
}

u8 peek(const Emulator& e, u32 address) {
    if (!(address & 0x1000)) return (address & 0x280) == 0x80 ? e.ram()[address & 0x7F] : 0;
    const u32 offset = address & 0xFFF;
    if (e.rom().kind == CART_FE) return e.rom().bytes[(address & 0x2000 ? 0 : 0x1000) + offset];
    return e.rom().bytes[e.state().cartridge.slice[offset >> 10] + (offset & 0x3FF)];
}

// Runs one frame. Returns one tuple per instruction: (cycle, line, cycle in line, pc, three bytes at pc, a, x, y, sp).
py::list trace(Emulator& e, u32 action) {
    py::list out;
    e.traced_frame(action, [&](const Console& c) {
        const State& s = c.s;
        const u32 pc = s.cpu.pc;
        const i32 clock = 3 * s.cycle;
        out.append(py::make_tuple(s.cycle, line_number(s.tia, clock), line_clock(s.tia, clock) / 3, pc, peek(e, pc),
                                  peek(e, pc + 1), peek(e, pc + 2), s.cpu.a, s.cpu.x, s.cpu.y, s.cpu.sp));
    });
    return out;
}

std::unique_ptr<AtariEnvCore> make_env_core(const py::bytes& rom, int kind, const py::dict& game, u32 frame_skip, u32 max_steps,
                                            bool life_loss, double repeat, int observation, const Bytes& luminance) {
    const std::string bytes = rom;
    const Game g = game_of(game);
    check_game(kind, g);
    if (luminance.size() != 256) throw std::invalid_argument("the palette has the wrong size");
    if (observation < 0 || observation >= OBSERVATION_KINDS || (observation != SUBSAMPLE && g.height != ROWS))
        throw std::invalid_argument("this observation is made of screens of 210 rows");
    if (frame_skip < 1 || max_steps < 1) throw std::invalid_argument("an agent step has at least one frame, an episode one step");
    const Rules rules{frame_skip, max_steps, life_loss, repeat, ObservationKind(observation)};
    py::gil_scoped_release release;
    auto core = std::make_unique<AtariEnvCore>(bytes, CartridgeKind(kind), g, rules, luminance.data());
    core->load();
    return core;
}

u8* observation_at(const AtariEnvCore& a, Bytes& out) {
    if (size_t(out.size()) != a.observation_bytes()) throw std::invalid_argument("the observation has the wrong size");
    return out.mutable_data();
}

// Steps each environment. A negative action skips the environment, with reward 0, no flags and a frame of zeros.
// `draws` [n, frame_skip] float64 are the random numbers of sticky actions; None means no sticky actions. The other
// arguments are arrays for the results, as in the Python class data.Step.
void step_env_cores(const py::list& list, const py::array_t<i32, py::array::c_style>& actions,
                    const std::optional<Doubles>& draws, Bytes& frames, Floats& reward, Flags& terminated, Flags& truncated,
                    Flags& ended) {
    AtariEnvCore* env_cores[256];
    const size_t n = list.size();
    if (n < 1 || n > 256) throw std::invalid_argument("1 to 256 environments step together");
    for (size_t i = 0; i < n; i++) env_cores[i] = py::cast<AtariEnvCore*>(list[i]);
    const size_t size = env_cores[0]->observation_bytes();
    if (size_t(actions.size()) != n || size_t(frames.size()) != n * size || size_t(reward.size()) != n ||
        size_t(terminated.size()) != n || size_t(truncated.size()) != n || size_t(ended.size()) != n ||
        (draws && size_t(draws->size()) != n * env_cores[0]->frame_skip()))
        throw std::invalid_argument("an array has the wrong size");
    const i32* const action = actions.data();
    for (size_t i = 0; i < n; i++)
        if (action[i] >= i32(ACTIONS))
            throw std::invalid_argument("action " + std::to_string(action[i]) + "; allowed are 0 to 17");
    const double* const drawn = draws ? draws->data() : nullptr;
    u8* const to = frames.mutable_data();
    float* const r = reward.mutable_data();
    bool *const term = terminated.mutable_data(), *const trunc = truncated.mutable_data(), *const end = ended.mutable_data();
    py::gil_scoped_release release;
    for (size_t i = 0; i < n; i++) {
        Outcome o{0, false, false, false};
        if (action[i] >= 0)
            o = env_cores[i]->step(u32(action[i]), drawn ? drawn + i * env_cores[i]->frame_skip() : nullptr, to + i * size);
        else std::memset(to + i * size, 0, size);
        r[i] = o.reward, term[i] = o.terminated, trunc[i] = o.truncated, end[i] = o.ended;
    }
}

}  // namespace

PYBIND11_MODULE(_core, m) {
    m.doc() = "The Atari 2600 emulator's core. Use accel_rl.emulator.AtariEmulator.";
    const auto free_gil = py::call_guard<py::gil_scoped_release>();
    py::class_<Emulator>(m, "Emulator")
        .def(py::init(&make), py::arg("rom"), py::arg("kind"), py::arg("game"), py::arg("seed"), py::arg("sticky"),
             py::arg("fast") = true)
        .def("act", &Emulator::act, free_gil)
        .def("reset", &Emulator::reset, free_gil)
        .def("restart", &Emulator::restart, free_gil)
        .def("load", &Emulator::load, free_gil)
        .def("set_difficulty", &Emulator::set_difficulty)
        .def("set_steps",
             [](Emulator& e, const py::list& steps) {
                 Game g{};
                 set_steps(g, steps);
                 e.set_steps(g);
             })
        .def("frame",
             [](Emulator& e, u32 action, u8 switches) {
                 if (action >= ACTIONS) throw std::invalid_argument("action " + std::to_string(action) + "; allowed are 0 to 17");
                 e.frame(action, switches);
             })
        .def("set_draws", &Emulator::set_draws)
        .def("set_fast", &Emulator::set_fast)
        .def_property_readonly("fast", &Emulator::fast)
        .def("set_ram", &Emulator::set_ram)
        .def("ram", [](const Emulator& e) { return py::array_t<u8>(128, e.ram()); })
        .def("screen", &screen)
        .def("mapped", &mapped)
        .def("trace", &trace)
        .def("translated", &Emulator::translated, free_gil)
        .def("insert_translation", &Emulator::insert_translation)
        .def("set_translates", &Emulator::set_translates)
        .def_property_readonly("is_translated", &Emulator::is_translated)
        .def("play", [](const Emulator& e) { return py::bytes(reinterpret_cast<const char*>(&e.play()), sizeof(Play)); })
        .def("set_play",
             [](Emulator& e, const std::string& bytes) {
                 Play play;
                 if (bytes.size() != sizeof play) throw std::invalid_argument("the state has the wrong number of bytes");
                 std::memcpy(static_cast<void*>(&play), bytes.data(), sizeof play);
                 e.set_play(play);
             })
        .def("save", [](Emulator& e) { return py::bytes(e.save()); })
        .def("restore", [](Emulator& e, const py::bytes& b) { e.restore(b); })
        .def_property_readonly("over", &Emulator::over)
        .def_property_readonly("lives", &Emulator::lives)
        .def_property_readonly("frames", &Emulator::frames)
        .def_property_readonly("episode_frames", &Emulator::episode_frames)
        .def_property_readonly_static("state_size", [](py::object) { return sizeof(State); });
    py::class_<AtariEnvCore, Emulator>(m, "AtariEnvCore")
        .def(py::init(&make_env_core), py::arg("rom"), py::arg("kind"), py::arg("game"), py::arg("frame_skip"),
             py::arg("max_steps"), py::arg("life_loss"), py::arg("repeat_probability"), py::arg("observation"),
             py::arg("luminance"))
        .def("set_raw",
             [](AtariEnvCore& a, bool ram, const std::string& palette) {
                 if (ram ? !palette.empty() : palette.size() != 256 && palette.size() != 768)
                     throw std::invalid_argument("the palette has the wrong size");
                 a.set_raw(ram ? RawObservation::RAM : RawObservation::PICTURE, std::vector<u8>(palette.begin(), palette.end()));
             })
        .def("begin", [](AtariEnvCore& a, Bytes out) { a.begin(observation_at(a, out)); })
        .def("observe", [](AtariEnvCore& a, Bytes out) { a.observe(observation_at(a, out)); })
        .def_property(
            "steps", [](const AtariEnvCore& a) { return a.episode.steps; },
            [](AtariEnvCore& a, u32 value) { a.episode.steps = value; })
        .def_property(
            "held", [](const AtariEnvCore& a) { return a.episode.held; },
            [](AtariEnvCore& a, u32 value) { a.episode.held = value; })
        .def_property(
            "lives_before", [](const AtariEnvCore& a) { return a.episode.lives_before; },
            [](AtariEnvCore& a, i32 value) { a.episode.lives_before = value; });
    // A translated ROM is used only if its SOURCES (hash of the headers) and LAYOUT (of memory) equal those of this
    // module.
#ifdef ACCEL_RL_SOURCES
    m.attr("SOURCES") = ACCEL_RL_SOURCES;
#else
    m.attr("SOURCES") = "";
#endif
    m.attr("LAYOUT") = layout_of_translations();
    m.def("game_tables", [](const py::dict& game) {
        const Game g = game_of(game);
        return py::bytes(reinterpret_cast<const char*>(&g), sizeof g);
    });
    m.def("step_env_cores", &step_env_cores, py::arg("env_cores"), py::arg("actions"), py::arg("draws"),
          py::arg("frames").noconvert(), py::arg("reward").noconvert(), py::arg("terminated").noconvert(),
          py::arg("truncated").noconvert(), py::arg("ended").noconvert());
    // A memory fence: other processes see the loads and stores before the fence before those after the fence.
    m.def("fence", [] { std::atomic_thread_fence(std::memory_order_seq_cst); });
    bind_vector(m);
    bind_device(m);
    bind_counter(m);
}
