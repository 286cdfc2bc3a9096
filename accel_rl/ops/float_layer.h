// relu(convolution) of channels-last float32 pictures and its gradients, in registers of 16 numbers.
//
//     position  x [k rows][k C]  ->  broadcast, times  weight [k k C][16 N]  ->  P x N sums of 16 channels in registers
//
//     forward   P positions, all k k C numbers of each
//     input     P positions' gradients [D], added to `chunk` neighbouring numbers of the input at each tap
//     weight    P neighbouring numbers of the weight's rows, over all positions of a picture
//
// A sum's terms are added in one order whoever is beside it: the bits of a picture do not depend on its batch.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace accel {

// C and D: multiples of 16. Pictures [H, W, C], outputs [rows, columns, D].
struct FloatLayer {
    const std::int64_t C, H, W, D, k, s, p;

    FloatLayer(std::int64_t C, std::int64_t H, std::int64_t W, std::int64_t D, std::int64_t k, std::int64_t s, std::int64_t p)
        : C(C), H(H), W(W), D(D), k(k), s(s), p(p), down((H + 2 * p - k) / s + 1), right((W + 2 * p - k) / s + 1) {
        for (std::int64_t y = 0; y < rows(); y++)
            for (std::int64_t x = 0; x < columns(); x++) begins.push_back(y * s * line() + x * s * C);
    }
    std::int64_t rows() const { return down; }
    std::int64_t columns() const { return right; }
    std::int64_t positions() const { return rows() * columns(); }
    std::int64_t input() const { return H * W * C; }
    std::int64_t output() const { return positions() * D; }
    std::int64_t line() const { return (W + 2 * p) * C; }  // of the padded picture
    std::int64_t padded() const { return (H + 2 * p) * line(); }
    std::int64_t row() const { return k * C; }  // of a kernel
    std::int64_t weights() const { return k * row() * D; }
    // Channels at a time; numbers of a kernel's row at a time: positions are s C apart, so no two add to the same number.
    std::int64_t block() const { return widest(D, D); }
    std::int64_t chunk() const { return widest(row(), s * C); }
    std::vector<std::int64_t> begins;  // where each position's numbers begin in the padded picture

    static std::int64_t widest(std::int64_t n, std::int64_t most) {
        return n % 64 == 0 && most >= 64 ? 64 : n % 32 == 0 && most >= 32 ? 32 : 16;
    }

private:
    const std::int64_t down, right;  // kept: innermost loops ask for the output's size, and a division takes longer than their work
};

#if defined(__x86_64__) && defined(__GNUC__)

#define ACCEL_AVX512 __attribute__((target("avx512f,avx512bw")))

template <int N>
constexpr int together() {  // positions, or numbers: their sums, their factors and a broadcast number fit 32 registers
    return N == 4 ? 6 : 12;
}

template <int P, int N>
struct Sums {
    __m512 s[P][N];
};

// sums[p] += x[p] b
template <int P, int N>
ACCEL_AVX512 inline __attribute__((always_inline)) void add(Sums<P, N>& sums, const float* const (&x)[P], std::int64_t i,
                                                            const float* b) {
    __m512 w[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) w[n] = _mm512_loadu_ps(b + 16 * n);
#pragma GCC unroll 12
    for (int p = 0; p < P; p++) {
        const __m512 number = _mm512_set1_ps(x[p][i]);
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = _mm512_fmadd_ps(number, w[n], sums.s[p][n]);
    }
}

// P neighbouring positions, 16 N channels: x [P] in the padded picture, weight [k k C, 16 N] -> out, D apart.
template <int P, int N>
ACCEL_AVX512 void some_outputs(const FloatLayer& l, const float* const* at, const float* weight, const float* bias, float* out) {
    Sums<P, N> sums;
    const float* x[P];
#pragma GCC unroll 12
    for (int p = 0; p < P; p++) {
        x[p] = at[p];
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = _mm512_loadu_ps(bias + 16 * n);
    }
    const std::int64_t row = l.row(), line = l.line();
    for (std::int64_t y = 0; y < l.k; y++) {
        for (std::int64_t i = 0; i < row; i++, weight += 16 * N) add<P, N>(sums, x, i, weight);
#pragma GCC unroll 12
        for (int p = 0; p < P; p++) x[p] += line;
    }
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++)  // NaN stays
            _mm512_storeu_ps(out + p * l.D + 16 * n, _mm512_max_ps(_mm512_setzero_ps(), sums.s[p][n]));
}

// P neighbouring positions' gradients [P, D], weight [D, 16 N] -> added to 16 N numbers of the picture at each.
template <int P, int N>
ACCEL_AVX512 void some_inputs(const FloatLayer& l, const float* grad, const float* weight, float* const* to) {
    Sums<P, N> sums;
    const float* x[P];
#pragma GCC unroll 12
    for (int p = 0; p < P; p++) {
        x[p] = grad + p * l.D;
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = _mm512_loadu_ps(to[p] + 16 * n);
    }
    for (std::int64_t d = 0; d < l.D; d++, weight += 16 * N) add<P, N>(sums, x, d, weight);
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) _mm512_storeu_ps(to[p] + 16 * n, sums.s[p][n]);
}

// P neighbouring numbers of a kernel's row, 16 N channels: sum over the picture's positions, added to weight [P, 16 N]. One loop
// for them all: at the end of each row of a picture it would be left unforeseen.
template <int P, int N>
ACCEL_AVX512 void some_weights(const FloatLayer& l, const float* picture, const float* grad, float* weight) {
    Sums<P, N> sums;
    const float* x[P];
#pragma GCC unroll 12
    for (int p = 0; p < P; p++) {
        x[p] = picture + p;
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums.s[p][n] = _mm512_loadu_ps(weight + 16 * (p * N + n));
    }
    for (const std::int64_t begin : l.begins) {
        add<P, N>(sums, x, begin, grad);
        grad += l.D;
    }
#pragma GCC unroll 12
    for (int p = 0; p < P; p++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) _mm512_storeu_ps(weight + 16 * (p * N + n), sums.s[p][n]);
}

// The function of p <= P: `some_outputs<p, N>` and the like.
#define ACCEL_SOME(name)                                            \
    template <int P, int N, class... Arguments>                     \
    ACCEL_AVX512 void name##_of(std::int64_t p, Arguments... arguments) { \
        if constexpr (P > 0) {                                      \
            if (p == P) return name<P, N>(arguments...);            \
            name##_of<P - 1, N>(p, arguments...);                   \
        }                                                           \
    }
ACCEL_SOME(some_outputs)
ACCEL_SOME(some_inputs)
ACCEL_SOME(some_weights)
#undef ACCEL_SOME

// With a border of zeros, if there is one: scratch [padded()].
inline const float* with_border(const FloatLayer& l, const float* picture, float* scratch) {
    if (!l.p) return picture;
    std::memset(scratch, 0, size_t(l.padded()) * sizeof(float));
    for (std::int64_t y = 0; y < l.H; y++)
        std::memcpy(scratch + (y + l.p) * l.line() + l.p * l.C, picture + y * l.W * l.C, size_t(l.W * l.C) * sizeof(float));
    return scratch;
}

inline void without_border(const FloatLayer& l, const float* padded, float* picture) {
    for (std::int64_t y = 0; y < l.H; y++)
        std::memcpy(picture + y * l.W * l.C, padded + (y + l.p) * l.line() + l.p * l.C, size_t(l.W * l.C) * sizeof(float));
}

// picture [H, W, C], weight [D / 16 N, k, k, C, 16 N] -> out [rows, columns, D]; scratch [padded()].
template <int N>
void float_outputs(const FloatLayer& l, const float* picture, const float* weight, const float* bias, float* out, float* scratch) {
    constexpr int MOST = together<N>();
    const float* const in = with_border(l, picture, scratch);
    for (std::int64_t d = 0; d < l.D; d += 16 * N) {
        for (std::int64_t at = 0, n; at < l.positions(); at += n) {
            const float* x[MOST];
            for (n = 0; n < MOST && at + n < l.positions(); n++) x[n] = in + l.begins[size_t(at + n)];
            some_outputs_of<MOST, N>(n, l, static_cast<const float* const*>(x), weight + d * l.k * l.row(), bias + d,
                                     out + at * l.D + d);
        }
    }
}

// grad [rows, columns, D], through the ReLU; weight [k, row() / 16 N, D, 16 N] -> added to the padded picture's gradient.
template <int N>
void float_inputs(const FloatLayer& l, const float* grad, const float* weight, float* picture) {
    constexpr int MOST = together<N>();
    for (std::int64_t y = 0; y < l.k; y++) {
        for (std::int64_t i = 0; i < l.row(); i += 16 * N, weight += l.D * 16 * N) {
            for (std::int64_t at = 0, n; at < l.positions(); at += n) {
                float* to[MOST];
                for (n = 0; n < MOST && at + n < l.positions(); n++) to[n] = picture + l.begins[size_t(at + n)] + y * l.line() + i;
                some_inputs_of<MOST, N>(n, l, grad + at * l.D, weight, static_cast<float* const*>(to));
            }
        }
    }
}

// in: the padded picture; grad as above -> added to weight [D / 16 N, k, k, C, 16 N].
template <int N>
void float_weights(const FloatLayer& l, const float* in, const float* grad, float* weight) {
    constexpr int MOST = together<N>();
    for (std::int64_t d = 0; d < l.D; d += 16 * N) {
        for (std::int64_t y = 0; y < l.k; y++) {
            for (std::int64_t i = 0, n; i < l.row(); i += n, weight += n * 16 * N) {
                n = l.row() - i < MOST ? l.row() - i : MOST;
                some_weights_of<MOST, N>(n, l, in + y * l.line() + i, grad + d, weight);
            }
        }
    }
}

// The gradient of what the ReLU let through, 0 elsewhere; its sums over positions are added to bias [D].
ACCEL_AVX512 inline void through_relu(const FloatLayer& l, const float* grad, const float* out, float* passed, float* bias) {
    for (std::int64_t d = 0; d < l.D; d += 16) {
        __m512 sum = _mm512_setzero_ps();
        for (std::int64_t at = d; at < l.output(); at += l.D) {
            const __mmask16 on = _mm512_cmp_ps_mask(_mm512_loadu_ps(out + at), _mm512_setzero_ps(), _CMP_GT_OQ);
            const __m512 g = _mm512_maskz_loadu_ps(on, grad + at);
            _mm512_storeu_ps(passed + at, g);
            sum = _mm512_add_ps(sum, g);
        }
        _mm512_storeu_ps(bias + d, _mm512_add_ps(_mm512_loadu_ps(bias + d), sum));
    }
}

#undef ACCEL_AVX512

#endif

}  // namespace accel
