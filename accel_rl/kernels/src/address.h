#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace accel {

// Arrays are passed as addresses of contiguous tensors, which Python owns; the GIL is released while they are used.
using address = std::uintptr_t;
using i64 = std::int64_t;
using Geometry = std::array<std::int64_t, 7>;  // of a convolution: the members of ConvF32 and ConvBF16 in their order

template <class T>
T* at(address a) {
    return reinterpret_cast<T*>(a);
}

constexpr std::size_t ONE_THREAD_BYTES = 1 << 19;  // moving this much takes as long as waking a thread

}  // namespace accel
