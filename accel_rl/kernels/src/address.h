#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace accel {

// Arrays are passed as addresses of contiguous tensors, which Python owns.
// The GIL is released while a kernel uses the tensors.
using address = std::uintptr_t;
using i64 = std::int64_t;
// The geometry of a convolution: the arguments of the constructor of ConvF32 or ConvBF16, in order.
using Geometry = std::array<std::int64_t, 7>;

template <class T>
T* at(address a) {
    return reinterpret_cast<T*>(a);
}

constexpr std::size_t ONE_THREAD_BYTES = 1 << 19;  // Moving `ONE_THREAD_BYTES` bytes takes as long as waking a thread.

}  // namespace accel
