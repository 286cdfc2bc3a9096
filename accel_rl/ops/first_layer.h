// A network's first layer on pictures of bytes: relu(convolution), 8 x 8 with stride 4, and its gradient.
//
//     picture [S, H, W] bytes  ->  cells [H / 4, W / 4] of [S, 4, 4] bytes, in the cache  ->  a layer of 2 x 2 (float_layer.h)
//
// The pictures' floats, four times their bytes, never go through memory; sums and differences of bytes are exact.
#pragma once
#include "float_batch.h"

namespace accel {

#if ACCEL_X86

inline bool has_first_layer() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"); }

// A batch of [S, H, W], `stride` bytes apart.
struct Stacks {
    using Number = std::uint8_t;
    static constexpr i64 SIDE = 4, CELL = SIDE * SIDE;
    const i64 S, H, W;
    const FloatLayer layer;
    const std::uint8_t* const first;
    const i64 stride;

    Stacks(i64 S, i64 H, i64 W, i64 D, const std::uint8_t* first, i64 stride)
        : S(S), H(H), W(W), layer(S * CELL, H / SIDE, W / SIDE, D, 2, 1, 0, false), first(first), stride(stride) {}

    i64 bytes() const { return S * H * W; }
    const char* at(i64 i) const { return reinterpret_cast<const char*>(first + i * stride); }
    Places places(bool by_output) const { return {S, layer.D, 2 * SIDE, SIDE, true, by_output}; }
    const std::uint8_t* bordered(i64 i, std::uint8_t* scratch) const {
        for (i64 y = 0; y < layer.H; y++)
            for (i64 s = 0; s < S; s++)
                cells(first + i * stride + (s * H + y * SIDE) * W, scratch + y * layer.line() + s * CELL);
        return scratch;
    }

private:
    // Four rows of a plane -> a row of cells.
    void cells(const std::uint8_t* rows, std::uint8_t* to) const {
        i64 x = 0;
        for (; x + 4 <= layer.W; x += 4, to += 4 * layer.C) {
            __m128i r[4];
            for (int i = 0; i < 4; i++) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + i * W + SIDE * x));
            const __m128i a = _mm_unpacklo_epi32(r[0], r[1]), b = _mm_unpacklo_epi32(r[2], r[3]);
            const __m128i c = _mm_unpackhi_epi32(r[0], r[1]), d = _mm_unpackhi_epi32(r[2], r[3]);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi64(a, b));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + layer.C), _mm_unpackhi_epi64(a, b));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * layer.C), _mm_unpacklo_epi64(c, d));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 3 * layer.C), _mm_unpackhi_epi64(c, d));
        }
        for (; x < layer.W; x++, to += layer.C)
            for (i64 i = 0; i < SIDE; i++) std::memcpy(to + SIDE * i, rows + i * W + SIDE * x, SIDE);
    }
};

// pictures [N, S, H, W] uint8, `stride` bytes apart, weight [D, S, 8, 8], bias [D] -> out [N, rows, columns, D], of pictures / 255.
inline void first_layer(i64 N, i64 S, i64 H, i64 W, i64 D, address pictures, i64 stride, address weight, address bias, address out,
                        int threads) {
    relu_convolutions(N, {S, H, W, D, 8, 4, 0}, Stacks(S, H, W, D, at<const std::uint8_t>(pictures), stride),
                      at<const float>(weight), 255.0f, at<const float>(bias), at<float>(out), threads);
}

// grad and out [N, rows, columns, D] -> d_weight [D, S, 8, 8] by pictures of 0 to 255, d_bias [D].
inline void first_layer_back(i64 N, i64 S, i64 H, i64 W, i64 D, address pictures, i64 stride, address grad, address out,
                             address d_weight, address d_bias, int threads) {
    relu_convolutions_back(N, Stacks(S, H, W, D, at<const std::uint8_t>(pictures), stride), at<const float>(grad),
                           at<const float>(out), nullptr, nullptr, at<float>(d_weight), at<float>(d_bias), threads);
}

#else

inline bool has_first_layer() { return false; }

#endif

}  // namespace accel
