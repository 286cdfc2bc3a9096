#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace accel {

// Arrays come as addresses of contiguous tensors, whose owner is Python; the GIL is released while they are read.
using address = std::uintptr_t;
using i64 = std::int64_t;
using Geometry = std::array<std::int64_t, 7>;  // a convolution's: the members of ConvF32 and ConvBF16, in their order

template <class T>
T* at(address a) {
    return reinterpret_cast<T*>(a);
}

constexpr std::size_t ALONE = 1 << 19;  // waking a thread takes as long as moving so many bytes

}  // namespace accel
