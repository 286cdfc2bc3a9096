// Several vectors added up with weights, and the squares of the sums, in one pass over the memory.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "threads.h"

#if ACCEL_X86
#define ACCEL_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ACCEL_WIDE
#endif

namespace accel {

// x [n], few enough for float32.
ACCEL_WIDE inline double squares_of(const float* x, std::size_t n) {
    constexpr std::size_t LANES = 64;
    float lanes[LANES] = {};
    std::size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (std::size_t j = 0; j < LANES; j++) lanes[j] += x[i + j] * x[i + j];
    for (; i < n; i++) lanes[0] += x[i] * x[i];
    double sum = 0;
    for (const float lane : lanes) sum += double(lane);
    return sum;
}

// to[i] = sum over k of weights[k] parts[k][i], in that order -> the sum of their squares. Parts may not overlap `to`.
ACCEL_WIDE inline double weighted_sum(const float* const* parts, const float* weights, std::size_t K, float* __restrict to,
                                      std::size_t n) {
    constexpr std::size_t BLOCK = 1024;  // a block stays in the first cache
    double squares = 0;
    for (std::size_t from = 0; from < n; from += BLOCK) {
        const std::size_t m = n - from < BLOCK ? n - from : BLOCK;
        float* __restrict const out = to + from;
        for (std::size_t i = 0; i < m; i++) out[i] = weights[0] * parts[0][from + i];
        for (std::size_t k = 1; k < K; k++) {
            const float* const part = parts[k] + from;
            const float w = weights[k];
            for (std::size_t i = 0; i < m; i++) out[i] += w * part[i];
        }
        squares += squares_of(out, m);
    }
    return squares;
}

// x [n]. Added up in parts that do not depend on the number of threads.
inline double sum_of_squares(const float* x, i64 n, int threads) {
    constexpr i64 PART = 1 << 16;
    std::vector<double> sums(size_t((n + PART - 1) / PART));
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        for (i64 p = from; p < to; p++)
            for (i64 i = p * PART; i < std::min((p + 1) * PART, n); i += 1024)
                sums[size_t(p)] += squares_of(x + i, size_t(std::min(n - i, i64(1024))));
    };
    share(i64(sums.size()), threads, part, 1);
    double sum = 0;
    for (const double s : sums) sum += s;
    return sum;
}

}  // namespace accel
