// A network's first layer on pictures of bytes: relu(convolution), 8 x 8 with stride 4, and its gradient.
//
//     picture [S, H, W] bytes -> floats, in the cache -> 16 channels a register, up to 20 positions of an output row at once
//
// Every product is one instruction, a register of 16 channels times a number of the picture that is broadcast from memory.
// With 16 or 32 channels a library's convolution runs at half that rate, and the pictures' floats, four times their bytes,
// and the ReLU go through memory besides.
#pragma once
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace accel {

// Channels: a multiple of 16 up to 32. Weights and their gradients are [S, 8, 8, channels], outputs [rows, columns, channels].
struct FirstLayer {
    static constexpr int KERNEL = 8, STRIDE = 4, LANES = 16;
    std::int64_t S, H, W, channels;

    std::int64_t rows() const { return (H - KERNEL) / STRIDE + 1; }
    std::int64_t columns() const { return (W - KERNEL) / STRIDE + 1; }
    std::int64_t input() const { return S * H * W; }
    std::int64_t output() const { return rows() * columns() * channels; }
    std::int64_t weights() const { return S * KERNEL * KERNEL * channels; }
    std::int64_t scratch() const { return input() + LANES + output(); }  // floats
};

#if defined(__x86_64__) && defined(__GNUC__)

#define ACCEL_AVX512 __attribute__((target("avx512f,avx512bw")))

inline bool has_first_layer() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"); }

ACCEL_AVX512 inline void widen(const std::uint8_t* from, std::int64_t n, float* to) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm512_storeu_ps(to + i, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)));
    }
    for (; i < n; i++) to[i] = float(from[i]);
}

// P neighbouring positions of one output row, N registers of channels each.
template <int P, int N>
ACCEL_AVX512 void positions(const FirstLayer& l, const float* in, const float* weight, const float* bias, float* out) {
    __m512 sum[P][N];
#pragma GCC unroll 32
    for (int p = 0; p < P; p++)
#pragma GCC unroll 2
        for (int n = 0; n < N; n++) sum[p][n] = _mm512_loadu_ps(bias + 16 * n);
    for (std::int64_t plane = 0; plane < l.S; plane++) {
        for (int row = 0; row < l.KERNEL; row++) {
            const float* x = in + (plane * l.H + row) * l.W;
#pragma GCC unroll 1  // else the compiler keeps numbers for the next k, and not the sums, in registers
            for (int k = 0; k < l.KERNEL; k++, x++, weight += 16 * N) {
                __m512 w[N];
#pragma GCC unroll 2
                for (int n = 0; n < N; n++) w[n] = _mm512_loadu_ps(weight + 16 * n);
#pragma GCC unroll 32
                for (int p = 0; p < P; p++) {
                    const __m512 number = _mm512_set1_ps(x[FirstLayer::STRIDE * p]);
#pragma GCC unroll 2
                    for (int n = 0; n < N; n++) sum[p][n] = _mm512_fmadd_ps(number, w[n], sum[p][n]);
                }
            }
        }
    }
#pragma GCC unroll 32
    for (int p = 0; p < P; p++)
#pragma GCC unroll 2
        for (int n = 0; n < N; n++) {
            _mm512_storeu_ps(out + 16 * (p * N + n), _mm512_max_ps(_mm512_setzero_ps(), sum[p][n]));  // NaN stays
        }
}

template <int P, int N>
ACCEL_AVX512 void some_positions(std::int64_t p, const FirstLayer& l, const float* in, const float* weight,
                                 const float* bias, float* out) {
    if constexpr (P > 0) {
        if (p == P) return positions<P, N>(l, in, weight, bias, out);
        some_positions<P - 1, N>(p, l, in, weight, bias, out);
    }
}

template <int N>
ACCEL_AVX512 void forward(const FirstLayer& l, const std::uint8_t* picture, const float* weight, const float* bias,
                          float* out, float* scratch) {
    constexpr int MOST = 20 / N;  // of 32 registers
    widen(picture, l.input(), scratch);
    const std::int64_t columns = l.columns(), parts = (columns + MOST - 1) / MOST;
    for (std::int64_t row = 0; row < l.rows(); row++) {
        for (std::int64_t part = 0; part < parts; part++) {
            const std::int64_t from = columns * part / parts, to = columns * (part + 1) / parts;
            const float* in = scratch + (row * l.W + from) * l.STRIDE;
            some_positions<MOST, N>(to - from, l, in, weight, bias, out + (row * columns + from) * l.channels);
        }
    }
}

// Adds to the gradients of weight and bias. grad, out: of this picture's output.
template <int N>
ACCEL_AVX512 void backward(const FirstLayer& l, const std::uint8_t* picture, const float* grad, const float* out,
                           float* weight, float* bias, float* scratch) {
    constexpr int ROWS = 2 / N, K = FirstLayer::KERNEL;
    widen(picture, l.input(), scratch);
    float* const passed = scratch + ((l.input() + 15) & ~std::int64_t(15));
    for (std::int64_t i = 0; i < l.output(); i += 16) {  // through the ReLU
        const __mmask16 on = _mm512_cmp_ps_mask(_mm512_loadu_ps(out + i), _mm512_setzero_ps(), _CMP_GT_OQ);
        const __m512 g = _mm512_maskz_loadu_ps(on, grad + i);
        float* const b = bias + i % l.channels;
        _mm512_storeu_ps(passed + i, g);
        _mm512_storeu_ps(b, _mm512_add_ps(_mm512_loadu_ps(b), g));
    }
    for (std::int64_t plane = 0; plane < l.S; plane++) {
        for (int row = 0; row < K; row += ROWS, weight += ROWS * K * N * 16) {
            __m512 sum[ROWS * K][N];
#pragma GCC unroll 32
            for (int k = 0; k < ROWS * K; k++)
#pragma GCC unroll 2
                for (int n = 0; n < N; n++) sum[k][n] = _mm512_loadu_ps(weight + 16 * (k * N + n));
            const float* from = passed;
            for (std::int64_t y = 0; y < l.rows(); y++) {
                const float* x = scratch + (plane * l.H + y * l.STRIDE + row) * l.W;
                for (std::int64_t p = 0; p < l.columns(); p++, x += l.STRIDE, from += 16 * N) {
                    __m512 g[N];
#pragma GCC unroll 2
                    for (int n = 0; n < N; n++) g[n] = _mm512_loadu_ps(from + 16 * n);
#pragma GCC unroll 32
                    for (int k = 0; k < ROWS * K; k++) {
                        const __m512 number = _mm512_set1_ps(x[k / K * l.W + k % K]);
#pragma GCC unroll 2
                        for (int n = 0; n < N; n++) sum[k][n] = _mm512_fmadd_ps(number, g[n], sum[k][n]);
                    }
                }
            }
#pragma GCC unroll 32
            for (int k = 0; k < ROWS * K; k++)
#pragma GCC unroll 2
                for (int n = 0; n < N; n++) _mm512_storeu_ps(weight + 16 * (k * N + n), sum[k][n]);
        }
    }
}

#undef ACCEL_AVX512

#else

inline bool has_first_layer() { return false; }

template <int N>
void forward(const FirstLayer&, const std::uint8_t*, const float*, const float*, float*, float*) {}

template <int N>
void backward(const FirstLayer&, const std::uint8_t*, const float*, const float*, float*, float*, float*) {}

#endif

}  // namespace accel
