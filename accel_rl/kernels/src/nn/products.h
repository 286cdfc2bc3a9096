// Multiplies matrices whose rows are in the cache, in blocks of P rows by N registers of WIDE columns. vector_kernels.h
// includes this header once for each instruction set.
//
// The terms of each sum are added in the same order at every call.

namespace accel::ACCEL_FORM {

// The number of columns in a block. AVX2 has half as many registers as AVX-512, each of half the size.
constexpr std::int64_t widest(std::int64_t n) { return WIDE == 8 || n % 32 ? 16 : n % 64 ? 32 : 64; }

// The number of rows in a block. The registers hold the block's sums, a row of the right factor, and a broadcast
// number.
template <int N>
constexpr int together() {
    return WIDE == 8 || N == 4 ? 6 : 12;
}

template <int P, int N>
struct Sums {
    Vector s[P][N];
};

template <int P, int N>
ACCEL_INLINE void add(Sums<P, N>& sums, const float* x, std::int64_t apart, const float* b) {
    Vector w[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) w[n] = ACCEL_MM(loadu_ps)(b + WIDE * n);
#pragma GCC unroll 12
    for (int p = 0; p < P; p++) {
        const Vector number = ACCEL_MM(set1_ps)(x[p * apart]);
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = ACCEL_MM(fmadd_ps)(number, w[n], sums.s[p][n]);
    }
}

// Computes out = x w from x [P][K] and w [K][WIDE N]. The rows of `out` are `apart` numbers apart.
template <int P, int N>
ACCEL_VECTOR void some_rows(const float* x, std::int64_t K, const float* w, float* out, std::int64_t apart) {
    Sums<P, N> sums;
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = ACCEL_MM(setzero_ps)();
    for (std::int64_t i = 0; i < K; i++, w += WIDE * N) add<P, N>(sums, x + i, K, w);
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) ACCEL_MM(storeu_ps)(out + p * apart + WIDE * n, sums.s[p][n]);
}

// Adds the products of P columns of x [rows][K] with WIDE N columns of y [rows][L] to sum [P][WIDE N].
template <int P, int N>
ACCEL_VECTOR void some_columns(const float* x, std::int64_t K, const float* y, std::int64_t L, std::int64_t rows, float* sum) {
    Sums<P, N> sums;
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = ACCEL_MM(loadu_ps)(sum + WIDE * (p * N + n));
    for (std::int64_t t = 0; t < rows; t++) add<P, N>(sums, x + t * K, 1, y + t * L);
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) ACCEL_MM(storeu_ps)(sum + WIDE * (p * N + n), sums.s[p][n]);
}

// Calls the function that is compiled for p rows, such as `some_rows<p, N>`, where p <= P is known only at run time.
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

// Computes the product out [rows][L] of x [rows][K] and w [L / WIDE N][K][WIDE N].
template <int N>
void product(const float* x, std::int64_t rows, std::int64_t K, const float* w, std::int64_t L, float* out) {
    constexpr int MOST = together<N>();
    for (std::int64_t l = 0; l < L; l += WIDE * N)
        for (std::int64_t at = 0; at < rows; at += MOST)
            some_rows_of<MOST, N>(std::min<std::int64_t>(MOST, rows - at), x + at * K, K, w + l * K, out + at * L + l, L);
}

// Adds x' y, where x' is the transpose of x [rows][K] and y is [rows][L], to sum [L / WIDE N][K][WIDE N].
template <int N>
void turned_product(const float* x, std::int64_t K, const float* y, std::int64_t L, std::int64_t rows, float* sum) {
    constexpr int MOST = together<N>();
    for (std::int64_t l = 0; l < L; l += WIDE * N)
        for (std::int64_t k = 0; k < K; k += MOST)
            some_columns_of<MOST, N>(std::min<std::int64_t>(MOST, K - k), x + k, K, y + l, L, rows, sum + l * K + k * WIDE * N);
}

}  // namespace accel::ACCEL_FORM
