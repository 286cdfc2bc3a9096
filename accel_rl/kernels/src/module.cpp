// Python binding of the CPU kernels: those of nn/ (convolutions, small fully connected layers, actions, frames), and
// those that draw batches from a replay.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "address.h"
#include "call_graph.h"
#include "nn/actions.h"
#include "nn/frame_stacks.h"
#include "nn/layer_norm.h"
#include "replay.h"
#include "threads.h"
#include "nn/conv_bf16_batch.h"
#include "nn/vector_kernels.h"

namespace py = pybind11;

using namespace accel;

PYBIND11_MODULE(_native, m) {
    m.def("use_team", [](address parallel) { accel::team() = reinterpret_cast<accel::Team>(parallel); });
    define<&accel::sample_categorical>(m, "sample_categorical");
    define<&accel::epsilon_greedy>(m, "epsilon_greedy");
    define<&accel::largest_value>(m, "largest_value");
    define<&accel::copy>(m, "copy");
    define<&accel::relu>(m, "relu");
    define<&accel::layer_norm>(m, "layer_norm");
    define<&gather_stacks>(m, "gather_stacks");
    const Vectors vectors = accel::vectors();
    m.attr("vectors") = vectors == Vectors::avx512 ? "avx512" : vectors == Vectors::avx2 ? "avx2" : "";
#if ACCEL_X86
#define ACCEL_DEFINE(name) vectors == Vectors::avx512 ? define<&avx512::name>(m, #name) : define<&avx2::name>(m, #name)
    ACCEL_DEFINE(conv_u8);
    ACCEL_DEFINE(conv_u8_frames);
    ACCEL_DEFINE(conv_u8_back);
    ACCEL_DEFINE(conv_f32_winograd);
    ACCEL_DEFINE(conv_f32_back);
    ACCEL_DEFINE(linear_small_batch);
#undef ACCEL_DEFINE
#endif
    m.def("has_amx", &accel::has_amx);
    define<&conv_bf16_amx>(m, "conv_bf16_amx");
    define<&conv_bf16_back>(m, "conv_bf16_back");
    py::class_<HostRing>(m, "HostRing")
        .def(py::init<Input<char>, Input<std::uint8_t>, Input<char>, Input<float>, Input<std::uint8_t>, Input<std::int32_t>, i64,
                      i64, i64, float, float>())
        .def("nth", &HostRing::nth)
        .def("gather", &HostRing::gather);
    py::class_<HostTree>(m, "HostTree")
        .def(py::init<Input<float>, std::vector<Input<double>>>())
        .def("draw", &HostTree::draw)
        .def_static("normalise", &HostTree::normalise)
        .def("update", &HostTree::update);
    py::class_<CallGraph>(m, "CallGraph")
        .def(py::init<>())
        .def("add", &CallGraph::add)
        .def("settle", &CallGraph::settle)
        .def("move", &CallGraph::move)
        .def("run", &CallGraph::run, py::call_guard<py::gil_scoped_release>())
        .def("__len__", &CallGraph::size);
}
