// Python binding of the host build of the kernels.
#pragma once
#include <pybind11/pybind11.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "host.h"

namespace accel {

inline void bind_device(pybind11::module_& m) {
    namespace py = pybind11;
    auto device = m.def_submodule("device", "The host build of the GPU's kernels.");
    // arguments: the bytes of a StepArguments whose pointers are into this process's memory.
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
        return py::make_tuple(found.warps, found.lanes);
    });
    const auto free_gil = py::call_guard<py::gil_scoped_release>();
    device.def("draw", [of](const std::string& arguments) { host_draw(of(arguments)); }, free_gil);
    device.def("finish", [of](const std::string& arguments) { host_finish(of(arguments)); }, free_gil);
    device.def("begin", [of](const std::string& arguments, bool all) { host_begin(of(arguments), all); }, free_gil);
    device.def("program_code", [](const py::bytes& rom, int kind) { return py::bytes(program_code(rom, CartridgeKind(kind))); });
    device.def("stages", [] {
        static constexpr StageTable table = make_stage_table();
        return py::bytes(reinterpret_cast<const char*>(&table), sizeof table);
    });
    device.attr("sizes") =
        py::dict(py::arg("arguments") = sizeof(StepArguments), py::arg("env") = sizeof(Env), py::arg("play") = sizeof(Play),
                 py::arg("shot") = sizeof(Shot), py::arg("scratch") = sizeof(FinishScratch), py::arg("game") = sizeof(Game),
                 py::arg("logged") = MOST_LOGGED, py::arg("timers") = TIMERS, py::arg("rows") = MOST_ROWS);
}

}  // namespace accel
