// Several vectors added up with weights, and the squares of the sums, in one pass over the memory.
#pragma once
#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__)
#define ACCEL_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ACCEL_WIDE
#endif

namespace accel {

// to[i] = sum over k of weights[k] parts[k][i], in that order -> the sum of their squares. Parts may not overlap `to`.
ACCEL_WIDE inline double weighted_sum(const float* const* parts, const float* weights, std::size_t K, float* __restrict to,
                                      std::size_t n) {
    constexpr std::size_t BLOCK = 1024, LANES = 16;  // a block stays in the first cache
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
        float lanes[LANES] = {};
        std::size_t i = 0;
        for (; i + LANES <= m; i += LANES)
            for (std::size_t j = 0; j < LANES; j++) lanes[j] += out[i + j] * out[i + j];
        for (; i < m; i++) lanes[0] += out[i] * out[i];
        for (const float x : lanes) squares += double(x);
    }
    return squares;
}

}  // namespace accel
