// Where the frames of stacked pictures lie: in one piece each, or still in the sequence in which each frame is stored once.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "address.h"

namespace accel {

constexpr int MOST_PLANES = 16;
using Planes = std::array<const std::uint8_t*, MOST_PLANES>;

// base, bytes from a frame to the next newer one, bytes from a picture to the next; or instead of these: address of [N] int64,
// where each picture's oldest frame lies, and of [N] uint8, how many frames before its newest are its episode's.
using PlaneSource = std::array<i64, 5>;

inline Planes planes_of(const PlaneSource& source, i64 i, i64 S, i64 bytes) {
    const auto [base, row, stride, places, ages] = source;
    thread_local std::vector<std::uint8_t> zeros;
    Planes planes{};
    const std::uint8_t* oldest = at<const std::uint8_t>(address(base)) + (places ? at<const i64>(address(places))[i] : i * stride);
    for (i64 k = 0; k < S; k++) planes[size_t(k)] = oldest + k * row;
    if (ages) {
        const i64 before = S - 1 - i64(at<const std::uint8_t>(address(ages))[i]);
        if (before > 0 && i64(zeros.size()) < bytes) zeros.resize(size_t(bytes));
        for (i64 k = 0; k < before; k++) planes[size_t(k)] = zeros.data();
    }
    return planes;
}

}  // namespace accel
