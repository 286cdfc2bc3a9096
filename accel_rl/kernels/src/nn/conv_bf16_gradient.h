// Computes the gradients of bfloat16 convolutions, with or without a ReLU, in AMX tile registers. Cells and outputs are
// numbered as in conv_bf16.h.
// | d cells[c] = sum over taps of d output[c - tap] weight[tap]'        rows of a: outputs' gradients
// | d weight[tap]' = sum over q of d output[q]' cells[q + tap]          rows of a: a channel's gradients
#pragma once
#include "conv_bf16.h"

namespace accel {

#if ACCEL_HAS_TILES

// Computes the gradient before the ReLU from grad and out [rows, columns, Co], where `out` is null without a ReLU.
// The result `cells` is the gradient in cell order, after reach() zeros. The gradient's sum is added to bias [Co].
ACCEL_TILES inline void before_relu(const ConvBF16& l, const bf16* grad, const bf16* out, float* bias, bf16* cells) {
    for (i64 c = 0; c < l.Co; c += 16) {
        __m512 sum = _mm512_loadu_ps(bias + c);
        for (i64 y = 0; y < l.rows(); y++) {
            bf16* to = cells + (l.reach() + y * l.width()) * l.Co + c;
            const i64 from = y * l.columns() * l.Co + c;
            for (i64 i = 0; i < l.columns() * l.Co; i += l.Co, to += l.Co) {
                __mmask16 on = __mmask16(-1);
                if (out)
                    on = _mm256_cmpgt_epi16_mask(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(out + from + i)),
                                                 _mm256_setzero_si256());
                const __m256i g = _mm256_maskz_loadu_epi16(on, grad + from + i);
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), g);
                sum = _mm512_add_ps(sum, widened(g));
            }
        }
        _mm512_storeu_ps(bias + c, sum);
    }
}

// Computes d_input [H, W, Ci] from gradients in cell order and weight tiles b [taps, Co / 32][C / 16].
ACCEL_TILES inline void input_gradient(const ConvBF16& l, const bf16* grad, const bf16* weight, bf16* d_input,
                                       ConvBF16Scratch& s) {
    const i64 parts = l.Co / 32, channels = l.C() / 16, cells = l.cells();
    if (l.s * (cells / l.width()) - l.p < l.H || l.s * l.width() - l.p < l.W) std::memset(d_input, 0, size_t(l.in()) * 2);
    auto &a_steps = s.steps[0], &b_steps = s.steps[1];
    a_steps.clear(), b_steps.clear();
    for (i64 i = 0; i < l.taps() * parts; i++) {
        a_steps.push_back((l.reach() - l.tap(i / parts)) * l.Co + i % parts * 32);
        b_steps.push_back(i * channels * 512);
    }
    for (i64 q = 0; q < cells; q += 32) {
        for (i64 c = 0; c < channels; c += 2) {
            zero_tiles();
            add_products({grad + q * l.Co, 16 * l.Co, l.Co, a_steps.data(), weight + c * 512, 512, 32, b_steps.data(),
                          i64(a_steps.size())},
                         cells - q > 16, true);
            store_tiles(s.sums);
            for (i64 n = 0; n < 2; n++) {
                const i64 *place = s.inputs.data() + q * l.s * l.s + (c + n) * 16 / l.Ci, channel = (c + n) * 16 % l.Ci;
                for (i64 m = 0; m < std::min(cells - q, i64(32)); m++, place += l.s * l.s) {
                    if (*place < 0) continue;
                    const __m512 sum = _mm512_load_ps(s.sums + (m / 16 * 2 + n) * 256 + m % 16 * 16);
                    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d_input + *place + channel), rounded(sum));
                }
            }
        }
    }
}

// Transposes [outputs, Co] to [Co, outputs].
ACCEL_TILES inline void turn(const ConvBF16& l, const bf16* grad, bf16* across) {
    for (i64 q = 0; q < l.outputs(); q += 32) {
        for (i64 c = 0; c < l.Co; c += 16) {
            __m512i r[16];
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) {  // Each row has pairs of two successive outputs, for 16 channels.
                const bf16* from = grad + (q + 2 * i) * l.Co + c;
                const __m512i even = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
                const __m512i odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + l.Co)));
                r[i] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
            }
            transpose(r);
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) _mm512_storeu_si512(across + (c + i) * l.outputs() + q, r[i]);
        }
    }
}

ACCEL_TILES inline void pair_cells(const ConvBF16& l, const bf16* cells, bf16* pairs) {
    for (int odd = 0; odd < 2; odd++, pairs += ConvBF16Scratch::half(l)) {
        bf16* to = pairs;
        for (i64 i = 0; i + 1 < l.outputs() + l.reach() + 2; i += 2) {
            const bf16* from = cells + (i + odd) * l.C();
            for (i64 c = 0; c < l.C(); c += 32, to += 64) {
                __m512i low, high;
                pair_up(_mm512_loadu_si512(from + c), _mm512_loadu_si512(from + l.C() + c), low, high);
                _mm512_storeu_si512(to, low);
                _mm512_storeu_si512(to + 32, high);
            }
        }
    }
}

// Returns the size of the array to which weight_gradient adds.
inline i64 gradient_size(const ConvBF16& l) { return l.taps() * ((l.Co + 31) / 32) * (l.C() / 32) * 1024; }

// Adds the weight gradients of `n` pictures to `weight`, given their cells in pairs and their transposed output
// gradients.
// The order of `weight` is [taps][Co / 32][C / 32][2][2][16 co][16 c].
ACCEL_TILES inline void weight_gradient(const ConvBF16& l, i64 n, float* weight, ConvBF16Scratch& s) {
    const i64 parts = l.outputs() / 32;
    auto &a_steps = s.steps[0], &b_steps = s.steps[1];
    a_steps.clear(), b_steps.clear();
    for (i64 i = 0; i < n * parts; i++) {
        a_steps.push_back(i / parts * l.outputs() * l.Co + i % parts * 32);
        b_steps.push_back(i / parts * ConvBF16Scratch::pairs_of(l) + i % parts * 32 * l.C());
    }
    for (i64 t = 0; t < l.taps(); t++) {
        const bf16* pairs = s.pairs.data() + l.tap(t) % 2 * ConvBF16Scratch::half(l) + l.tap(t) / 2 * 2 * l.C();
        for (i64 co = 0; co < l.Co; co += 32) {
            for (i64 c = 0; c < l.C(); c += 32, weight += 1024) {
                load_tiles(weight);
                add_products({s.across.data() + co * l.outputs(), 16 * l.outputs(), l.outputs(), a_steps.data(), pairs + 2 * c,
                              32, 2 * l.C(), b_steps.data(), i64(a_steps.size())},
                             co + 16 < l.Co, true);
                store_tiles(weight);
            }
        }
    }
}

// Adds the gradients of `pictures` pictures to d_weight and d_bias, and writes d_input unless it is null.
template <class Number>
ACCEL_TILES void convolution_back(const ConvBF16& l, i64 pictures, const Number* const* input, const bf16* grad, const bf16* out,
                                  const bf16* weight, bf16* d_input, float* d_weight, float* d_bias, ConvBF16Scratch& s) {
    for (i64 i = 0; i < pictures; i++) {
        before_relu(l, grad + i * l.out(), out ? out + i * l.out() : nullptr, d_bias, s.grad.data());
        if (d_input) input_gradient(l, s.grad.data(), weight, d_input + i * l.in(), s);
        turn(l, s.grad.data() + l.reach() * l.Co, s.across.data() + i * l.outputs() * l.Co);
        fill_cells(l, input[i], s);
        pair_cells(l, s.cells.data(), s.pairs.data() + i * ConvBF16Scratch::pairs_of(l));
    }
    weight_gradient(l, pictures, d_weight, s);
}

#endif

}  // namespace accel
