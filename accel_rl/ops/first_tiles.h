// A network's first layer (first_layer.h) in tile registers: float32 as it is there, several times as fast.
//
// A byte is a bfloat16 number, and a float32 number the sum of three; their products are exact in float32, in which they are
// added up. So three products of tiles are one of float32 numbers.
#pragma once
#include "address.h"
#include "first_layer.h"
#include "prepared.h"
#include "tile_batch.h"

namespace accel {

constexpr i64 TERMS = 3;

inline Geometry geometry_of(const FirstLayer& l) {
    return {l.S, l.H, l.W, l.channels, FirstLayer::KERNEL, FirstLayer::STRIDE, 0};
}

#if ACCEL_HAS_TILES

// Number c of tap t's cell, in a kernel [S, 8, 8].
inline i64 place_of(i64 tap, i64 c) { return c / 16 * 64 + (tap / 2 * 4 + c % 16 / 4) * 8 + tap % 2 * 4 + c % 4; }

// weight [channels, S, 8, 8] / 255 -> tiles b [3 terms][taps, C / 32][channels / 16]
ACCEL_TILES inline void in_tiles(const TileLayer& l, const float* weight, bf16* tiles) {
    const i64 all = l.Ci * l.k * l.k, term = all * l.Co;
    const __m512i channel = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                               _mm512_set1_epi32(int(all)));
    for (i64 i = 0; i < all; i += 2) {  // a pair of numbers: a tile's row
        const i64 tap = i / l.C(), c = i % l.C();
        for (i64 d = 0; d < l.Co; d += 16) {
            __m256i terms[2][3];
#pragma GCC unroll 2
            for (int odd = 0; odd < 2; odd++) {
                const __m512 w = _mm512_i32gather_ps(channel, weight + d * all + place_of(tap, c + odd), 4);
                split(_mm512_div_ps(w, _mm512_set1_ps(255)), terms[odd]);
            }
            bf16* const to = tiles + (i / 32 * l.Co + d) * 32 + i % 32 * 16;
#pragma GCC unroll 3
            for (int t = 0; t < 3; t++) {
                const __m512i even = _mm512_cvtepu16_epi32(terms[0][t]), odd = _mm512_cvtepu16_epi32(terms[1][t]);
                _mm512_storeu_si512(to + t * term, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
            }
        }
    }
}

// sums as weight_gradient has them -> weight [S, 8, 8, channels]
inline void from_tiles(const TileLayer& l, const float* sums, float* weight) {
    const i64 blocks = (l.Co + 31) / 32, parts = l.C() / 32;
    for (i64 i = 0; i < l.taps() * l.C(); i++) {
        const i64 tap = i / l.C(), c = i % l.C();
        for (i64 d = 0; d < l.Co; d++) {
            const float* const tiles = sums + ((tap * blocks + d / 32) * parts + c / 32) * 1024;
            weight[place_of(tap, c) * l.Co + d] = tiles[(d % 32 / 16 * 2 + c % 32 / 16) * 256 + d % 16 * 16 + c % 16];
        }
    }
}

// before_relu (tile_gradient.h) of float32: terms of the gradient, one after the other.
ACCEL_TILES inline void before_relu(const TileLayer& l, const float* grad, const float* out, float* bias, TileScratch& s) {
    for (i64 c = 0; c < l.Co; c += 16) {
        __m512 sum = _mm512_loadu_ps(bias + c);
        for (i64 y = 0; y < l.rows(); y++) {
            bf16* to = s.grad.data() + (l.reach() + y * l.width()) * l.Co + c;
            const i64 from = y * l.columns() * l.Co + c;
            for (i64 i = 0; i < l.columns() * l.Co; i += l.Co, to += l.Co) {
                const __mmask16 on = _mm512_cmp_ps_mask(_mm512_loadu_ps(out + from + i), _mm512_setzero_ps(), _CMP_GT_OQ);
                const __m512 g = _mm512_maskz_loadu_ps(on, grad + from + i);
                __m256i terms[3];
                split(g, terms);
#pragma GCC unroll 3
                for (int t = 0; t < 3; t++) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + t * s.grads), terms[t]);
                sum = _mm512_add_ps(sum, g);
            }
        }
        _mm512_storeu_ps(bias + c, sum);
    }
}

ACCEL_TILES inline void first_tiles(const FirstLayer& first, i64 N, const std::uint8_t* pictures, i64 stride, const float* weight,
                                    const float* bias, float* out, int threads) {
    const Geometry geometry = geometry_of(first);
    const i64 n = first.weights();
    const float* const tiles = prepared(geometry, weight, n, (TERMS * n + 1) / 2, [&](float* numbers) {
        in_tiles(tile_layer_of(geometry), weight, reinterpret_cast<bf16*>(numbers));
    });
    relu_convolutions(N, geometry, pictures, stride, reinterpret_cast<const bf16*>(tiles), TERMS, bias, out, threads);
}

// Adds the gradients of pictures [from, to) to sums [taps ..][channels].
ACCEL_TILES inline void first_tiles_back(const FirstLayer& first, i64 from, i64 to, const std::uint8_t* pictures, i64 stride,
                                         const float* grad, const float* out, float* sums) {
    const Geometry geometry = geometry_of(first);
    const TileLayer l = tile_layer_of(geometry);
    TileScratch& s = scratch_of(geometry, 1, TERMS);
    const TileRegisters registers;
    for (i64 i = from; i < to; i++) {
        before_relu(l, grad + i * l.out(), out + i * l.out(), sums + gradient_size(l), s);
        for (i64 t = 0; t < TERMS; t++)
            turn(l, s.grad.data() + t * s.grads + l.reach() * l.Co, s.across.data() + t * s.turned);
        fill_cells(l, pictures + i * stride, s);
        pair_cells(l, s.cells.data(), s.pairs.data());
        weight_gradient(l, 1, TERMS, sums, s);
    }
}

#else

inline i64 gradient_size(const TileLayer&) { return 0; }
template <class... Any>
void from_tiles(const Any&...) {}
template <class... Any>
void first_tiles(const Any&...) {}
template <class... Any>
void first_tiles_back(const Any&...) {}

#endif

}  // namespace accel
