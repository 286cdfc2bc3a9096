#pragma once
#include <cstddef>
#include <cstdint>

namespace accel {

// Arrays come as addresses of contiguous tensors, whose owner is Python; the GIL is released while they are read.
using address = std::uintptr_t;

template <class T>
T* at(address a) {
    return reinterpret_cast<T*>(a);
}

constexpr std::size_t ALONE = 1 << 19;  // waking a thread takes as long as moving so many bytes

}  // namespace accel
