// Pictures of bytes on their way from a rollout into a network: stacks of frames, and either a network's first layer or
// numbers in channels-last order for a library's.
#pragma once
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "address.h"
#include "first_layer.h"
#include "first_tiles.h"
#include "interleave.h"
#include "lines.h"
#include "threads.h"

namespace accel {

namespace py = pybind11;

// frames.py's gather_stacks. frames: `row` bytes from one step to the next, `column` from one environment to the next;
// t, b [N] int64, age [N] uint8 -> out [N, S, bytes].
inline void gather_stacks(i64 N, i64 S, i64 bytes, address frames, i64 row, i64 column, address t, address b, address age,
                          address out, int threads) {
    py::gil_scoped_release nogil;
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        char* next = at<char>(out) + from * S * bytes;
        for (i64 i = from; i < to; i++) {
            const char* oldest = at<const char>(frames) + at<const i64>(t)[i] * row + at<const i64>(b)[i] * column;
            for (i64 k = 0; k < S; k++, next += bytes) {
                if (S - 1 - k > i64(at<const std::uint8_t>(age)[i]))
                    std::memset(next, 0, size_t(bytes));
                else
                    std::memcpy(next, oldest + k * row, size_t(bytes));
            }
        }
    };
    share(N, size_t(N * S * bytes) < ALONE ? 1 : threads, part);
}

// pictures [N, S, pixels] uint8, `stride` bytes apart, to [N, pixels, S] of float32 or bfloat16.
inline void channels_last(i64 N, i64 S, i64 pixels, address pictures, i64 stride, address out, bool bfloat16, int threads) {
    py::gil_scoped_release nogil;
    const size_t size = size_t(S * pixels);
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        for (i64 i = from; i < to; i++) {
            const std::uint8_t* in = at<const std::uint8_t>(pictures) + i * stride;
            if (bfloat16)
                interleave(in, S, pixels, at<BFloat16>(out) + size_t(i) * size);
            else
                interleave(in, S, pixels, at<float>(out) + size_t(i) * size);
        }
    };
    share(N, threads, part);
}

// pictures [N, S, H, W] uint8, `stride` bytes apart, weight [channels, S, 8, 8], bias [channels] -> out [N, rows, columns,
// channels], of pictures / 255.
inline void first_layer(i64 N, i64 S, i64 H, i64 W, i64 channels, bool tiles, address pictures, i64 stride, address weight,
                        address bias, address out, int threads) {
    py::gil_scoped_release nogil;
    const FirstLayer layer{S, H, W, channels};
    if (tiles) {
        first_tiles(layer, N, at<const std::uint8_t>(pictures), stride, at<const float>(weight), at<const float>(bias),
                    at<float>(out), threads);
        return;
    }
    const auto one = channels == 16 ? forward<1> : forward<2>;
    std::vector<Line> kept = lines(layer.weights());
    float* const ordered = kept.data()->number;  // [S, 8, 8, channels]
    for (i64 i = 0, all = S * 64; i < all; i++)  // 1/255 is the weights', which are few
        for (i64 c = 0; c < channels; c++) ordered[i * channels + c] = at<const float>(weight)[c * all + i] / 255;
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        for (i64 i = from; i < to; i++) {
            one(layer, at<const std::uint8_t>(pictures) + i * stride, ordered, at<const float>(bias),
                at<float>(out) + i * layer.output(), scratch_of(layer.scratch()));
        }
    };
    share(N, threads, part, 1);
}

// grad and out [N, rows, columns, channels] -> d_weight, d_bias. The batch is summed up in parts that do not depend on the
// number of threads, and then the parts in their order: the same bits however many threads there are.
inline void first_layer_back(i64 N, i64 S, i64 H, i64 W, i64 channels, bool tiles, address pictures, i64 stride, address grad,
                             address out, address d_weight, address d_bias, int threads) {
    py::gil_scoped_release nogil;
    const FirstLayer layer{S, H, W, channels};
    const TileLayer cells = tile_layer_of(geometry_of(layer));
    const auto one = channels == 16 ? backward<1> : backward<2>;
    const i64 weights = tiles ? gradient_size(cells) : layer.weights(), size = weights + channels;
    const i64 parts = std::clamp(N / 8, i64(1), i64(32));
    std::vector<Line> kept = lines(parts * size);
    float* const sums = kept.data()->number;
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        for (i64 p = from; p < to; p++) {
            float* sum = sums + p * size;
            const i64 begin = N * p / parts, end = N * (p + 1) / parts;
            if (tiles) {
                first_tiles_back(layer, begin, end, at<const std::uint8_t>(pictures), stride, at<const float>(grad),
                                 at<const float>(out), sum);
                continue;
            }
            for (i64 i = begin; i < end; i++) {
                one(layer, at<const std::uint8_t>(pictures) + i * stride, at<const float>(grad) + i * layer.output(),
                    at<const float>(out) + i * layer.output(), sum, sum + weights, scratch_of(layer.scratch()));
            }
        }
    };
    share(parts, threads, part, 1);
    add_up(sums, parts, size, threads);
    if (tiles)
        from_tiles(cells, sums, at<float>(d_weight));
    else
        std::copy_n(sums, weights, at<float>(d_weight));
    std::copy_n(sums + weights, channels, at<float>(d_bias));
}

}  // namespace accel
