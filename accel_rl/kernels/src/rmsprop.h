// RMSProp with epsilon outside the root, in one pass over the memory (optim/rmsprop.py has the equation).
#pragma once
#include <cmath>

#include "address.h"
#include "threads.h"

namespace accel {

inline __attribute__((always_inline)) void rmsprop_plain(float* __restrict data, const float* __restrict grad,
                                                         float* __restrict square, i64 n, float alpha, float rest, float rate,
                                                         float epsilon) {
    for (i64 i = 0; i < n; i++) {
        square[i] = __builtin_fmaf(rest * grad[i], grad[i], square[i] * alpha);
        data[i] += -rate * grad[i] / (std::sqrt(square[i]) + epsilon);
    }
}

#if ACCEL_X86
__attribute__((target("avx2,fma"))) inline void rmsprop_avx2(float* data, const float* grad, float* square, i64 n, float alpha,
                                                             float rest, float rate, float epsilon) {
    rmsprop_plain(data, grad, square, n, alpha, rest, rate, epsilon);
}
#endif

inline void rmsprop_part(float* data, const float* grad, float* square, i64 n, float alpha, float rest, float rate,
                         float epsilon) {
#if ACCEL_X86
    static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (wide) return rmsprop_avx2(data, grad, square, n, alpha, rest, rate, epsilon);
#endif
    rmsprop_plain(data, grad, square, n, alpha, rest, rate, epsilon);
}

// data, grad, square [n]
inline void rmsprop(i64 n, address data, address grad, address square, double alpha, double rate, double epsilon, int threads) {
    const auto part = [&](i64 from, i64 to) {
        rmsprop_part(at<float>(data) + from, at<const float>(grad) + from, at<float>(square) + from, to - from, float(alpha),
                     float(1 - alpha), float(rate), float(epsilon));
    };
    share(n, threads, part, i64(1) << 14);
}

}  // namespace accel
