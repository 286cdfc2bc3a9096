// Products of matrices with rows in the cache are computed in blocks of P rows by N registers of 16 columns.
//
// The terms of a sum are always added in the same order.
#pragma once
#include <algorithm>
#include <cstdint>

#include "../x86.h"

#if ACCEL_X86

namespace accel {

template <int N>
// 32 registers hold the sums of together() rows, a row of the other factor, and a broadcast number.
constexpr int together() {
    return N == 4 ? 6 : 12;
}

template <int P, int N>
struct Sums {
    __m512 s[P][N];
};

template <int P, int N>
ACCEL_AVX512 inline __attribute__((always_inline)) void add(Sums<P, N>& sums, const float* x, std::int64_t apart,
                                                            const float* b) {
    __m512 w[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) w[n] = _mm512_loadu_ps(b + 16 * n);
#pragma GCC unroll 12
    for (int p = 0; p < P; p++) {
        const __m512 number = _mm512_set1_ps(x[p * apart]);
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = _mm512_fmadd_ps(number, w[n], sums.s[p][n]);
    }
}

// Computes out [P], in rows `apart` numbers apart, from x [P][K] and w [K][16 N].
template <int P, int N>
ACCEL_AVX512 void some_rows(const float* x, std::int64_t K, const float* w, float* out, std::int64_t apart) {
    Sums<P, N> sums;
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = _mm512_setzero_ps();
    for (std::int64_t i = 0; i < K; i++, w += 16 * N) add<P, N>(sums, x + i, K, w);
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) _mm512_storeu_ps(out + p * apart + 16 * n, sums.s[p][n]);
}

// Adds the product of P columns of x' and 16 N columns of y to sum [P][16 N], for x [rows][K] and y [rows][L].
template <int P, int N>
ACCEL_AVX512 void some_columns(const float* x, std::int64_t K, const float* y, std::int64_t L, std::int64_t rows, float* sum) {
    Sums<P, N> sums;
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = _mm512_loadu_ps(sum + 16 * (p * N + n));
    for (std::int64_t t = 0; t < rows; t++) add<P, N>(sums, x + t * K, 1, y + t * L);
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) _mm512_storeu_ps(sum + 16 * (p * N + n), sums.s[p][n]);
}

// Calls the function for p <= P at run time, such as `some_rows<p, N>`.
#define ACCEL_SOME(name)                                     \
    template <int P, int N, class... Arguments>              \
    void name##_of(std::int64_t p, Arguments... arguments) { \
        if constexpr (P > 0) {                               \
            if (p == P) return name<P, N>(arguments...);     \
            name##_of<P - 1, N>(p, arguments...);            \
        }                                                    \
    }
ACCEL_SOME(some_rows)
ACCEL_SOME(some_columns)
#undef ACCEL_SOME

// Computes out [rows][L] from x [rows][K] and w [L / 16 N][K][16 N].
template <int N>
void product(const float* x, std::int64_t rows, std::int64_t K, const float* w, std::int64_t L, float* out) {
    constexpr int MOST = together<N>();
    for (std::int64_t l = 0; l < L; l += 16 * N)
        for (std::int64_t at = 0; at < rows; at += MOST)
            some_rows_of<MOST, N>(std::min<std::int64_t>(MOST, rows - at), x + at * K, K, w + l * K, out + at * L + l, L);
}

// Adds x' y, for x [rows][K] and y [rows][L], to sum [L / 16 N][K][16 N].
template <int N>
void turned_product(const float* x, std::int64_t K, const float* y, std::int64_t L, std::int64_t rows, float* sum) {
    constexpr int MOST = together<N>();
    for (std::int64_t l = 0; l < L; l += 16 * N)
        for (std::int64_t k = 0; k < K; k += MOST)
            some_columns_of<MOST, N>(std::min<std::int64_t>(MOST, K - k), x + k, K, y + l, L, rows, sum + l * K + k * 16 * N);
}

}  // namespace accel

#endif
