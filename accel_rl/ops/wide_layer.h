// A fully connected layer of few rows: x W' + b, where W is so large that putting it in order first, as libraries do for
// matrices, takes as long as multiplying.
//
//     out[n][g] = b[g] + sum over k of x[n][k] W[g][k]        both lie along k: sixteen numbers of each at a time
//
// An output's sixteen sums, one for each k modulo 16, are added up at its end: its bits depend neither on how many rows
// there are nor on the threads.
#pragma once
#include <algorithm>

#include "address.h"
#include "threads.h"
#include "x86.h"

#if ACCEL_X86

namespace accel {

constexpr i64 WIDE_ROWS = 64;  // of x, at most
constexpr i64 WIDE_PIECE = 768;  // of k: six of W's rows and four of x's stay in the first cache

struct Wide {
    i64 N, K, G;
    const float *x, *weight, *bias;
    float* out;
};

// sums [n][g] of four or fewer rows by six or fewer += those of k in [from, to), a multiple of 16 apart.
template <int P, int Q>
ACCEL_AVX512 inline void wide_sums(const Wide& w, i64 n, i64 g, i64 from, i64 to, __m512* sums) {
    __m512 s[P][Q];
#pragma GCC unroll 4
    for (int p = 0; p < P; p++)
#pragma GCC unroll 6
        for (int q = 0; q < Q; q++) s[p][q] = from ? sums[p * Q + q] : _mm512_setzero_ps();
    const float *x = w.x + n * w.K, *weight = w.weight + g * w.K;
    for (i64 k = from; k < to; k += 16) {
        __m512 row[P];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) row[p] = _mm512_loadu_ps(x + p * w.K + k);
#pragma GCC unroll 6
        for (int q = 0; q < Q; q++) {
            const __m512 column = _mm512_loadu_ps(weight + q * w.K + k);
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) s[p][q] = _mm512_fmadd_ps(row[p], column, s[p][q]);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < P; p++)
#pragma GCC unroll 6
        for (int q = 0; q < Q; q++) sums[p * Q + q] = s[p][q];
}

// The outputs of Q of W's rows from g on, for all rows of x.
template <int Q>
ACCEL_AVX512 void wide_outputs(const Wide& w, i64 g) {
    alignas(64) __m512 sums[WIDE_ROWS * Q];
    for (i64 from = 0; from < w.K; from += WIDE_PIECE) {
        const i64 to = std::min(from + WIDE_PIECE, w.K);
        i64 n = 0;
        for (; n + 4 <= w.N; n += 4) wide_sums<4, Q>(w, n, g, from, to, sums + n * Q);
        for (; n < w.N; n++) wide_sums<1, Q>(w, n, g, from, to, sums + n * Q);
    }
    for (i64 n = 0; n < w.N; n++)
        for (int q = 0; q < Q; q++) w.out[n * w.G + g + q] = w.bias[g + q] + _mm512_reduce_add_ps(sums[n * Q + q]);
}

// x [N, K], weight [G, K], bias [G] -> out [N, G]; N at most WIDE_ROWS, K a multiple of 16.
inline void wide_layer(i64 N, i64 K, i64 G, address x, address weight, address bias, address out, int threads) {
    const Wide w{N, K, G, at<const float>(x), at<const float>(weight), at<const float>(bias), at<float>(out)};
    constexpr i64 SIX = 6;
    share((G + SIX - 1) / SIX, threads, [&](i64 from, i64 to) {
        // There and back: W's last rows are still in the second cache at the next call, its first ones are not.
        static thread_local bool back = false;
        back = !back;
        for (i64 j = from; j < to; j++) {
            const i64 i = back ? j : from + to - 1 - j;
            if (SIX * (i + 1) <= G) wide_outputs<6>(w, SIX * i);
            else for (i64 g = SIX * i; g < G; g++) wide_outputs<1>(w, g);
        }
    }, 1);
}

}  // namespace accel

#endif
