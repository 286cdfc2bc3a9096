// Python binding of what a device's environments share with the host: random numbers by counter, tables, layouts.
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <vector>

#include "../core/philox.h"
#include "kernels/draw.h"

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
    device.def("wanted_rows", [](int kind, i32 rows) {
        std::string wanted(MOST_ROWS, 0);
        for (i32 row = 0; row < rows; row++) wanted[size_t(row)] = row_counts(ObservationKind(kind), row, rows);
        return py::bytes(wanted);
    });
    device.def("picture_bytes", &picture_bytes);
    device.attr("words") = py::dict(  // positions in an environment's words
        py::arg("env") = ENV_WORDS, py::arg("shot") = SHOT_WORDS, py::arg("steps") = offsetof(Env, episode) / 4,
        py::arg("seed") = offsetof(Env, seed) / 4, py::arg("number") = offsetof(Env, number) / 4,
        py::arg("age") = offsetof(Env, age) / 4);
}

}  // namespace accel
