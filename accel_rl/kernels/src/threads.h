#pragma once
#include <algorithm>
#include <atomic>
#include <functional>

#include "address.h"
#include "x86.h"

namespace accel {

// Runs a function on a team: GOMP_parallel of the OpenMP runtime that torch has loaded, so that these are torch's own
// threads. They look out for work between torch's operations; any others would find them on the cores.
using Team = void (*)(void (*function)(void*), void* argument, unsigned threads, unsigned flags);

inline Team& team() {
    static Team the = nullptr;
    return the;
}

// How the thread rounds and whether it flushes denormals. A helper keeps what its maker had when it was made: without
// the caller's, a sum would follow who added it.
inline unsigned float_mode() {
#if ACCEL_X86
    return _mm_getcsr() & ~0x3fu;  // without the flags that arithmetic leaves
#else
    return 0;
#endif
}
inline void set_float_mode([[maybe_unused]] unsigned mode) {
#if ACCEL_X86
    if (float_mode() != mode) _mm_setcsr(mode);
#endif
}

// part(from, to) for all of [0, N), `chunk` at a time, on so many threads; on the caller's alone where torch has none.
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
    team()(take, &work, unsigned(threads), 0);  // always so many: a team of another size begins with new threads
}

// Parts [parts, size] of sums -> the first: all of them, added in their order, whoever adds which.
inline void add_up(float* sums, i64 parts, i64 size, int threads) {
    const std::function<void(i64, i64)> add = [=](i64 from, i64 to) {
        for (i64 p = 1; p < parts; p++) {
            for (i64 i = from; i < to; i++) sums[i] += sums[p * size + i];
        }
    };
    share(size, threads, add, size / 4 + 1);
}

}  // namespace accel
