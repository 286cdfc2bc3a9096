// Computes convolutions in bfloat16, with or without a ReLU, in AMX tile registers. conv_bf16_gradient.h computes their
// gradients.
//
// If the stride s divides k, a k x k kernel is equivalent to a K x K kernel, K = k / s, with stride 1 over cells of s x
// s pixels.
// | input [H, W, Ci], p around it        cells [rows + K - 1, columns + K - 1, C = s s Ci]      output [rows, columns, Co]
//
// The numbers of a cell are contiguous in memory.
// For tap (i, j) of the kernel, output q = y (columns + K - 1) + x needs cell q + i (columns + K - 1) + j.
// Neighbouring outputs need neighbouring cells, so that no patches of the input have to be copied.
// Each row of outputs has K - 1 surplus outputs, which are not stored and whose gradient is 0.
// | output[q] = max(least, bias + sum over taps of cells[q + tap] weight[tap])   rows of a: cells
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "amx_tiles.h"

namespace accel {

// The geometry of a convolution. The input is a uint8 picture of 4 planes [H, W], with stride 4, or bfloat16 [H, W,
// Ci]. Co and Ci are multiples of 16, and C is a multiple of 32.
struct ConvBF16 {
    const i64 Ci, H, W, Co, k, s, p;

    ConvBF16(i64 Ci, i64 H, i64 W, i64 Co, i64 k, i64 s, i64 p)
        : Ci(Ci), H(H), W(W), Co(Co), k(k), s(s), p(p), side(k / s), down((H + 2 * p - k) / s + 1),
          right((W + 2 * p - k) / s + 1) {}
    i64 K() const { return side; }
    i64 taps() const { return K() * K(); }
    i64 C() const { return s * s * Ci; }
    i64 rows() const { return down; }
    i64 columns() const { return right; }
    i64 width() const { return columns() + K() - 1; }
    i64 cells() const { return (rows() + K() - 1) * width(); }
    i64 tap(i64 i) const { return i / K() * width() + i % K(); }
    i64 reach() const { return (K() - 1) * (width() + 1); }  // The last tap is reach() cells after the first.
    // The number of outputs in cell order, rounded up to 32. Only rows() * columns() outputs are stored.
    i64 outputs() const { return (rows() * width() + 31) & ~i64(31); }
    i64 in() const { return H * W * Ci; }
    i64 out() const { return rows() * columns() * Co; }

  private:
    // Precomputed quotients, because divisions would be too slow in the innermost loops.
    const i64 side, down, right;
};

// Zero-initialised memory, aligned to cache lines so that a tile's row is one cache line. Loading a tile's row from two
// cache lines takes several times as long as from one.
class Lines {
    struct Free {
        void operator()(bf16* numbers) const { ::operator delete[](numbers, std::align_val_t(64)); }
    };
    std::unique_ptr<bf16[], Free> numbers;

  public:
    explicit Lines(i64 n) : numbers(static_cast<bf16*>(::operator new[](size_t(n) * 2, std::align_val_t(64)))) {
        std::fill_n(data(), n, bf16(0));
    }
    bf16* data() { return numbers.get(); }
};

// Scratch memory of a thread for one picture. Cells that are never written stay zero.
struct ConvBF16Scratch {
    Lines cells, pairs, grad, across;
    std::vector<i64> inputs, outs,
        steps[2];  // `steps` has positions of a cell's pixels in the input, and of output q in `out`; -1 means none.
    alignas(64) float sums[1024];

    ConvBF16Scratch(const ConvBF16& l, i64 pictures)
        : cells((l.outputs() + l.reach() + 32) * l.C()), pairs(pictures * pairs_of(l)),
          grad((l.outputs() + 2 * l.reach() + 32) * l.Co), across(pictures * l.outputs() * l.Co) {
        for (i64 cell = 0; cell < l.cells(); cell++) {
            for (i64 place = 0; place < l.s * l.s; place++) {
                const i64 i = cell / l.width() * l.s + place / l.s - l.p, j = cell % l.width() * l.s + place % l.s - l.p;
                inputs.push_back(i >= 0 && i < l.H && j >= 0 && j < l.W ? (i * l.W + j) * l.Ci : -1);
            }
        }
        for (i64 q = 0; q < l.outputs(); q++) {
            const i64 y = q / l.width(), x = q % l.width();
            outs.push_back(y < l.rows() && x < l.columns() ? (y * l.columns() + x) * l.Co : -1);
        }
    }
    // There are two pairings of cells, (0, 1), (2, 3) .. and (1, 2), (3, 4) .., because a tap begins at an even or an
    // odd cell.
    static i64 half(const ConvBF16& l) { return (l.outputs() + l.reach() + 2) / 2 * 2 * l.C(); }
    static i64 pairs_of(const ConvBF16& l) { return 2 * half(l); }
};

#if ACCEL_HAS_TILES

// Copies the bytes of a picture [4, H, W] to cells of [4 planes, 4, 4].
ACCEL_TILES inline void fill_cells(const ConvBF16& l, const std::uint8_t* picture, ConvBF16Scratch& s) {
    bf16* cells = s.cells.data();
    for (i64 y = 0; y < l.cells() / l.width(); y++) {
        for (i64 x = 0; x < l.width(); x += 16) {
            const i64 n = std::min(l.width() - x, i64(16));
            __m512i r[16];
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++)
                r[i] = _mm512_maskz_loadu_epi32(__mmask16((1u << n) - 1), picture + (i / 4 * l.H + 4 * y + i % 4) * l.W + 4 * x);
            transpose(r);
            for (i64 i = 0; i < n; i++) {
                alignas(64) std::uint8_t bytes[64];
                _mm512_store_si512(bytes, r[i]);
                for (int part = 0; part < 64; part += 16) {
                    const __m512i wide = _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes + part)));
                    _mm256_storeu_si256(reinterpret_cast<__m256i*>(cells + part), rounded(_mm512_cvtepi32_ps(wide)));
                }
                cells += 64;
            }
        }
    }
}

// Copies the input [H, W, Ci] to cells of [s, s, Ci].
ACCEL_TILES inline void fill_cells(const ConvBF16& l, const bf16* input, ConvBF16Scratch& s) {
    bf16* cells = s.cells.data();
    for (const i64 from : s.inputs) {
        for (i64 c = 0; c < l.Ci; c += 16, cells += 16) {
            const __m256i numbers =
                from < 0 ? _mm256_setzero_si256() : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(input + from + c));
            _mm256_store_si256(reinterpret_cast<__m256i*>(cells), numbers);
        }
    }
}

// Computes out [rows, columns, Co] from weight tiles b [taps, C / 32][Co / 16] and bias [Co]; `least` is 0 with a ReLU.
template <class Number>
ACCEL_TILES void convolution(const ConvBF16& l, const Number* input, const bf16* weight, const float* bias, float least,
                             bf16* out, ConvBF16Scratch& s) {
    const __m512 floor = _mm512_set1_ps(least);
    fill_cells(l, input, s);
    const i64 parts = l.C() / 32, channels = l.Co / 16;
    auto &a_steps = s.steps[0], &b_steps = s.steps[1];
    a_steps.clear(), b_steps.clear();
    for (i64 i = 0; i < l.taps() * parts; i++) {
        a_steps.push_back(l.tap(i / parts) * l.C() + i % parts * 32);
        b_steps.push_back(i * channels * 512);
    }
    for (i64 q = 0; q < l.outputs(); q += 32) {
        for (i64 c = 0; c < channels; c += 2) {
            const bool two = c + 1 < channels;
            zero_tiles();
            add_products({s.cells.data() + q * l.C(), 16 * l.C(), l.C(), a_steps.data(), weight + c * 512, 512, 32,
                          b_steps.data(), i64(a_steps.size())},
                         true, two);
            store_tiles(s.sums);
            for (i64 n = 0; n <= i64(two); n++) {
                const __m512 b = _mm512_loadu_ps(bias + (c + n) * 16);
                for (i64 m = 0; m < 32; m++) {
                    const i64 place = s.outs[size_t(q + m)];
                    if (place < 0) continue;
                    const __m512 sum = _mm512_load_ps(s.sums + (m / 16 * 2 + n) * 256 + m % 16 * 16);
                    // In this order of operands, _mm512_max_ps returns NaN if the sum is NaN.
                    put(_mm512_max_ps(floor, _mm512_add_ps(sum, b)), out + place + (c + n) * 16);
                }
            }
        }
    }
}

#endif

}  // namespace accel
