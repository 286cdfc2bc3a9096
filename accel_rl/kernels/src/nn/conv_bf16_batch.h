// Computes bfloat16 convolutions of batches of pictures on torch's threads.
#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <list>
#include <vector>

#include "../address.h"
#include "../threads.h"
#include "conv_bf16_gradient.h"

namespace accel {

inline ConvBF16 conv_bf16_of(const Geometry& g) { return {g[0], g[1], g[2], g[3], g[4], g[5], g[6]}; }

#if ACCEL_HAS_TILES

// Between calls, each thread keeps one scratch memory per geometry, so that its zeros need not be written again.
inline ConvBF16Scratch& scratch_of(const Geometry& geometry, i64 pictures) {
    struct Kept {
        Geometry geometry;
        i64 pictures;
        ConvBF16Scratch scratch;
    };
    thread_local std::list<Kept> all;
    for (Kept& kept : all)
        if (kept.geometry == geometry && kept.pictures == pictures) return kept.scratch;
    if (all.size() == 16) all.pop_back();  // The oldest cached weight is removed, as its network may no longer exist.
    all.push_front({geometry, pictures, ConvBF16Scratch(conv_bf16_of(geometry), pictures)});
    return all.front().scratch;
}

template <class Number>
void tile_convolutions(i64 N, const Geometry& geometry, const Number* input, i64 stride, const bf16* weight, const float* bias,
                       bf16* out, bool relu, int threads) {
    const float least = relu ? 0.0f : -std::numeric_limits<float>::infinity();
    const ConvBF16 layer = conv_bf16_of(geometry);
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        ConvBF16Scratch& scratch = scratch_of(geometry, 0);
        const TileRegisters registers;
        for (i64 i = from; i < to; i++)
            convolution(layer, input + i * stride, weight, bias, least, out + i * layer.out(), scratch);
    };
    share(N, threads, part, std::clamp(N / (2 * i64(threads)), i64(1), i64(8)));
}

// The gradients are summed over the same parts of the batch for any number of threads, so that the result does not
// depend on this number.
template <class Number>
void tile_convolutions_back(i64 N, const Geometry& geometry, const Number* input, i64 stride, address grad, address out,
                            address weight, address d_input, address d_weight, address d_bias, int threads) {
    const ConvBF16 layer = conv_bf16_of(geometry);
    const i64 tiles = gradient_size(layer), size = tiles + layer.Co;
    const i64 parts = std::clamp(N / 8, i64(1), i64(16)), together = std::clamp(448 / layer.outputs(), i64(1), i64(8));
    std::vector<float> sums(size_t(parts * size), 0.0f);
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        ConvBF16Scratch& scratch = scratch_of(geometry, together);
        const TileRegisters registers;
        for (i64 p = from; p < to; p++) {
            float* const sum = sums.data() + p * size;
            const i64 end = N * (p + 1) / parts;
            for (i64 i = N * p / parts; i < end; i += together) {
                const i64 n = std::min(together, end - i);
                const Number* inputs[8];
                for (i64 j = 0; j < n; j++) inputs[j] = input + (i + j) * stride;
                convolution_back(layer, n, inputs, at<const bf16>(grad) + i * layer.out(),
                                 out ? at<const bf16>(out) + i * layer.out() : nullptr, at<const bf16>(weight),
                                 d_input ? at<bf16>(d_input) + i * layer.in() : nullptr, sum, sum + tiles, scratch);
            }
        }
    };
    share(parts, threads, part, 1);
    add_up(sums.data(), parts, size, threads);
    std::copy_n(sums.data(), tiles, at<float>(d_weight));
    std::copy_n(sums.data() + tiles, layer.Co, at<float>(d_bias));
}

#else

template <class... Any>
void tile_convolutions(const Any&...) {}
template <class... Any>
void tile_convolutions_back(const Any&...) {}

#endif

// Computes out [N, rows, columns, Co] bfloat16 from N pictures, each bytes [4, H, W] or bfloat16 [H, W, Ci].
inline void conv_bf16_amx(i64 N, const Geometry& geometry, bool bytes, address input, i64 stride, address weight, address bias,
                          address out, bool relu, int threads) {
    const auto all = [&](const auto* numbers) {
        tile_convolutions(N, geometry, numbers, stride, at<const bf16>(weight), at<const float>(bias), at<bf16>(out), relu,
                          threads);
    };
    bytes ? all(at<const std::uint8_t>(input)) : all(at<const bf16>(input));
}

// Computes d_weight [taps, Co / 32, C / 32, 2, 2, 16 co, 16 c] and d_bias [Co] in float32.
// Also computes d_input [N, H, W, Ci] bfloat16 unless d_input is 0. Without a ReLU, `out` is 0.
inline void conv_bf16_back(i64 N, const Geometry& geometry, bool bytes, address input, i64 stride, address grad, address out,
                           address weight, address d_input, address d_weight, address d_bias, int threads) {
    if (bytes)
        tile_convolutions_back(N, geometry, at<const std::uint8_t>(input), stride, grad, out, weight, d_input, d_weight, d_bias,
                               threads);
    else
        tile_convolutions_back(N, geometry, at<const bf16>(input), stride, grad, out, weight, d_input, d_weight, d_bias, threads);
}

}  // namespace accel
