// The bindings accept contiguous NumPy arrays.
#pragma once
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "core/types.h"

namespace accel {

namespace py = pybind11;

using Bytes = py::array_t<u8, py::array::c_style>;
using Flags = py::array_t<bool, py::array::c_style>;
using Floats = py::array_t<float, py::array::c_style>;
using Doubles = py::array_t<double, py::array::c_style>;

}  // namespace accel
