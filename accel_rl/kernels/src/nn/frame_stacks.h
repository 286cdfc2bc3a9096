// Gathers stacks of frames from a sequence in which each frame is stored once.
#pragma once
#include <cstring>
#include <functional>

#include "../address.h"
#include "../threads.h"

namespace accel {

// Copies stacks to out [N, S, bytes], as gather_stacks of kernels/frames.py does, given t, b [N] int64 and age [N]
// uint8. Frames of successive steps are `row` bytes apart, and those of neighbouring environments `column` bytes.
inline void gather_stacks(i64 N, i64 S, i64 bytes, address frames, i64 row, i64 column, address t, address b, address age,
                          address out, int threads) {
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        char* next = at<char>(out) + from * S * bytes;
        for (i64 i = from; i < to; i++) {
            const char* oldest = at<const char>(frames) + at<const i64>(t)[i] * row + at<const i64>(b)[i] * column;
            for (i64 k = 0; k < S; k++, next += bytes) {
                if (S - 1 - k > i64(at<const std::uint8_t>(age)[i])) std::memset(next, 0, size_t(bytes));
                else std::memcpy(next, oldest + k * row, size_t(bytes));
            }
        }
    };
    share(N, size_t(N * S * bytes) < ONE_THREAD_BYTES ? 1 : threads, part);
}

}  // namespace accel
