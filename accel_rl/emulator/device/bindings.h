// Python bindings of the GPU kernels compiled for CPUs, of counter-based random numbers, and of the kernels' tables and
// memory layouts.
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "host.h"

namespace accel {

inline void bind_counter(pybind11::module_& m) {
    namespace py = pybind11;
    auto counter = m.def_submodule("counter", "Random numbers by counter (core/philox.h).");
    counter.attr("FIRST_TIMER") = FIRST_TIMER;
    counter.attr("TIMERS") = TIMERS;
    counter.def(
        "start_draws",
        [](u32 seed, u32 episode, u32 rows, u32 columns) {
            const StartDraws drawn = start_draws(seed, episode, rows, columns);
            return py::make_tuple(drawn.row, drawn.column);
        },
        "The row and the column of the episode's start state.");
    counter.def(
        "sticky_draws",
        [](u32 seed, u32 episode, u32 step, u32 frame_skip) {
            std::vector<double> drawn(frame_skip);
            for (u32 frame = 0; frame < frame_skip; frame++) drawn[frame] = sticky_draw(seed, episode, step, frame, frame_skip);
            return drawn;
        },
        "The numbers of an agent step's frames.");
}

inline void bind_layouts(pybind11::module_& device) {
    namespace py = pybind11;
    device.def("cartridge_size", [](int kind) { return cartridge_size(CartridgeKind(kind)); });
    device.def(
        "damage",
        [](const std::string& env, const std::string& rom, int kind) -> std::string {
            if (env.size() != sizeof(Env)) return "the number of its bytes";
            Env e;
            std::memcpy(static_cast<void*>(&e), env.data(), sizeof e);
            if (e.episode.held >= ACTIONS) return "the last action";
            const char* const found = damage_of(e.play, rom_of(reinterpret_cast<const u8*>(rom.data()), CartridgeKind(kind)));
            return found ? found : "";
        },
        "What is impossible in an environment's state; empty if nothing is.");
    device.attr("words") = py::dict(py::arg("env") = ENV_WORDS, py::arg("shot") = SHOT_WORDS,
                                    py::arg("steps") = offsetof(Env, episode) / 4, py::arg("seed") = offsetof(Env, seed) / 4,
                                    py::arg("number") = offsetof(Env, number) / 4, py::arg("age") = offsetof(Env, age) / 4);
}

inline void bind_device(pybind11::module_& m) {
    namespace py = pybind11;
    auto device = m.def_submodule("device", "The host build of the GPU's kernels.");
    // `arguments` are the bytes of a StepArguments whose pointers are addresses in this process.
    const auto of = [](const std::string& arguments) {
        if (arguments.size() != sizeof(StepArguments))
            throw std::invalid_argument("the arguments have " + std::to_string(arguments.size()) + " bytes; expected " +
                                        std::to_string(sizeof(StepArguments)));
        StepArguments a;
        std::memcpy(static_cast<void*>(&a), arguments.data(), sizeof a);
        return a;
    };
    device.def("step", [of](const std::string& arguments) {
        const StepArguments a = of(arguments);
        Divergence found;
        {
            py::gil_scoped_release release;
            found = host_step(a);
        }
        return py::make_tuple(found.warps, found.lanes, found.slow);
    });
    const auto free_gil = py::call_guard<py::gil_scoped_release>();
    device.def("draw", [of](const std::string& arguments) { host_draw(of(arguments)); }, free_gil);
    device.def("finish", [of](const std::string& arguments) { host_finish(of(arguments)); }, free_gil);
    device.def("begin", [of](const std::string& arguments, bool all) { host_begin(of(arguments), all); }, free_gil);
    device.def("continued_starts", [](const std::string& envs, const std::string& rom, int kind, const std::string& game) {
        if (game.size() != sizeof(Game)) throw std::invalid_argument("the number of the game's bytes");
        Game g;
        std::memcpy(static_cast<void*>(&g), game.data(), sizeof g);
        return py::bytes(continued_starts(envs, rom_of(reinterpret_cast<const u8*>(rom.data()), CartridgeKind(kind)), g));
    });
    device.def("program_code", [](const py::bytes& rom, int kind) { return py::bytes(program_code(rom, CartridgeKind(kind))); });
    device.def("stages", [] {
        static constexpr StageTable table = make_stage_table();
        return py::bytes(reinterpret_cast<const char*>(&table), sizeof table);
    });
    bind_layouts(device);
    device.attr("sizes") =
        py::dict(py::arg("arguments") = sizeof(StepArguments), py::arg("env") = sizeof(Env), py::arg("play") = sizeof(Play),
                 py::arg("shot") = sizeof(Shot), py::arg("scratch") = sizeof(FinishScratch), py::arg("game") = sizeof(Game),
                 py::arg("logged") = MOST_LOGGED, py::arg("row") = sizeof(Registers), py::arg("recorded") = RECORDED_ROWS,
                 py::arg("band") = BAND_BYTES);
}

}  // namespace accel
