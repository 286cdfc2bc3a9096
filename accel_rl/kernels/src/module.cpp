// The compiled CPU kernels: convolutions (nn/conv_u8.h, nn/conv_f32_batch.h, nn/conv_bf16_batch.h), fully connected layers of
// few rows (nn/linear_small_batch.h), actions (nn/actions.h), stacks of frames (nn/frame_stacks.h), sums (sums.h), and graphs of
// their calls (call_graph.h).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "address.h"
#include "call_graph.h"
#include "nn/actions.h"
#include "nn/conv_u8.h"
#include "nn/frame_stacks.h"
#include "replay/ring.h"
#include "rmsprop.h"
#include "sums.h"
#include "threads.h"
#include "nn/conv_bf16_batch.h"
#include "nn/linear_small_batch.h"

namespace py = pybind11;

namespace {

using namespace accel;

// parts: addresses of float32 [n] each -> the sum of the sums' squares.
double sum_of(const std::vector<address>& parts, const std::vector<float>& weights, address out, i64 n) {
    py::gil_scoped_release nogil;
    std::vector<const float*> from;
    for (const address part : parts) from.push_back(at<const float>(part));
    return accel::weighted_sum(from.data(), weights.data(), from.size(), at<float>(out), size_t(n));
}

double squares(address x, i64 n, int threads) {
    py::gil_scoped_release nogil;
    return accel::sum_of_squares(at<const float>(x), n, threads);
}

}  // namespace

PYBIND11_MODULE(_native, m) {
    m.def("use_team", [](address parallel) { accel::team() = reinterpret_cast<accel::Team>(parallel); });
    m.def("rmsprop", &accel::rmsprop, py::call_guard<py::gil_scoped_release>());
    m.def("weighted_sum", &sum_of);
    m.def("sum_of_squares", &squares);
    define<&accel::sample_categorical>(m, "sample_categorical");
    define<&accel::epsilon_greedy>(m, "epsilon_greedy");
    define<&accel::copy>(m, "copy");
    define<&accel::relu>(m, "relu");
    define<&gather_stacks>(m, "gather_stacks");
    define<&channels_last>(m, "channels_last");
    m.def("has_avx512", &accel::has_avx512);
#if ACCEL_X86
    define<&conv_u8>(m, "conv_u8");
    define<&conv_u8_frames>(m, "conv_u8_frames");
    define<&conv_u8_back>(m, "conv_u8_back");
    define<&conv_f32_winograd>(m, "conv_f32_winograd");
    define<&linear_small_batch>(m, "linear_small_batch");
    define<&conv_f32_back>(m, "conv_f32_back");
#endif
    m.def("has_amx", &accel::has_amx);
    define<&conv_bf16_amx>(m, "conv_bf16_amx");
    define<&conv_bf16_back>(m, "conv_bf16_back");
    py::class_<CallGraph>(m, "CallGraph")
        .def(py::init<>())
        .def("add", &CallGraph::add)
        .def("settle", &CallGraph::settle)
        .def("move", &CallGraph::move)
        .def("run", &CallGraph::run, py::call_guard<py::gil_scoped_release>())
        .def("__len__", &CallGraph::size);
    py::class_<HostRing>(m, "HostRing")
        .def(py::init<i64, i64, i64, i64, i64, i64, float, float, address, address, address, address, address, address>())
        .def("sampleable", &HostRing::sampleables)
        .def("gather", &HostRing::gather);
    py::class_<HostSums>(m, "HostSums")
        .def(py::init<const HostRing&, const std::vector<address>&>(), py::keep_alive<1, 2>())
        .def("draw", &HostSums::draw)
        .def("update", &HostSums::update);
}
