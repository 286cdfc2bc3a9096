#pragma once
#include <algorithm>
#include <atomic>
#include <functional>

#include "address.h"
#include "x86.h"

namespace accel {

// Runs a function on several threads by GOMP_parallel of the OpenMP runtime that torch has loaded.
// Torch's threads keep spinning between operations, so that other threads would compete with them for the cores.
using Team = void (*)(void (*function)(void*), void* argument, unsigned threads, unsigned flags);

inline Team& team() {
    static Team the = nullptr;
    return the;
}

// Returns the float modes (rounding and denormals) of the calling thread. A helper thread inherits float modes only
// when it is created, so that the caller's modes must be set in the helper. If float modes differed between threads, a
// sum would depend on the thread that computes it.
inline unsigned float_mode() {
#if ACCEL_X86
    return _mm_getcsr() & ~0x3fu;  // The returned float modes do not include the status flags.
#else
    return 0;
#endif
}
inline void set_float_mode([[maybe_unused]] unsigned mode) {
#if ACCEL_X86
    if (float_mode() != mode) _mm_setcsr(mode);
#endif
}

// Divides [0, N) into ranges of length `chunk`, and calls part(from, to) for each range, on `threads` threads, or in
// the calling thread without OpenMP.
inline void share(i64 N, int threads, const std::function<void(i64, i64)>& part, i64 chunk = 4) {
    struct Work {
        const std::function<void(i64, i64)>& part;
        const i64 end, chunk;
        const unsigned mode;
        std::atomic<i64> next{0};
    } work{part, N, chunk, float_mode()};
    if (threads < 2 || N <= chunk || !team()) return part(0, N);
    const auto take = [](void* argument) {
        Work& w = *static_cast<Work*>(argument);
        set_float_mode(w.mode);
        for (i64 i; (i = w.next.fetch_add(w.chunk)) < w.end;) w.part(i, std::min(i + w.chunk, w.end));
    };
    // The number of threads is always the same, because GOMP creates new threads whenever the size of the team changes.
    team()(take, &work, unsigned(threads), 0);
}

// Adds up sums [parts, size] in the first part, in the same order for any number of threads.
inline void add_up(float* sums, i64 parts, i64 size, int threads) {
    const std::function<void(i64, i64)> add = [=](i64 from, i64 to) {
        for (i64 p = 1; p < parts; p++) {
            for (i64 i = from; i < to; i++) sums[i] += sums[p * size + i];
        }
    };
    share(size, threads, add, size / 4 + 1);
}

}  // namespace accel
