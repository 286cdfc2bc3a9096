// RMSProp with epsilon outside the root, in one pass over the memory (optim/rmsprop.py has the equation).
#pragma once
#include <cmath>

#include "address.h"
#include "threads.h"

#if ACCEL_X86
#define ACCEL_RMSPROP __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ACCEL_RMSPROP
#endif

namespace accel {

ACCEL_RMSPROP inline void rmsprop_part(float* __restrict data, const float* __restrict grad, float* __restrict square, i64 n,
                                       float alpha, float rest, float rate, float epsilon) {
    for (i64 i = 0; i < n; i++) {
        square[i] = __builtin_fmaf(rest * grad[i], grad[i], square[i] * alpha);
        data[i] += -rate * grad[i] / (std::sqrt(square[i]) + epsilon);
    }
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
