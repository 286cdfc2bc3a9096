// Memory that is aligned to cache lines, so that each vector register is loaded from a single line.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace accel {

struct alignas(64) Line {
    float number[16] = {};
};

inline std::vector<Line> lines(std::int64_t floats) { return std::vector<Line>(size_t(floats + 15) / 16); }

// Returns scratch memory of the calling thread, which is valid until the thread's next call.
inline float* scratch_of(std::int64_t floats) {
    thread_local std::vector<Line> kept;
    if (kept.size() < size_t(floats + 15) / 16) kept = lines(floats);
    return kept.data()->number;
}

}  // namespace accel
