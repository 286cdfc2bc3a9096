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

// pictures [N, S, H, W] uint8, `stride` bytes apart, weight [S, 8, 8, channels], bias [channels] -> out [N, rows, columns,
// channels].
inline void first_layer(i64 N, i64 S, i64 H, i64 W, i64 channels, address pictures, i64 stride, address weight, address bias,
                        address out, int threads) {
    py::gil_scoped_release nogil;
    const FirstLayer layer{S, H, W, channels};
    const auto one = channels == 16 ? forward<1> : forward<2>;
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        for (i64 i = from; i < to; i++) {
            one(layer, at<const std::uint8_t>(pictures) + i * stride, at<const float>(weight), at<const float>(bias),
                at<float>(out) + i * layer.output(), scratch_of(layer.scratch()));
        }
    };
    share(N, threads, part, 1);
}

// grad and out [N, rows, columns, channels] -> d_weight, d_bias. The batch is summed up in parts that do not depend on the
// number of threads, and then the parts in their order: the same bits however many threads there are.
inline void first_layer_back(i64 N, i64 S, i64 H, i64 W, i64 channels, address pictures, i64 stride, address grad, address out,
                             address d_weight, address d_bias, int threads) {
    py::gil_scoped_release nogil;
    const FirstLayer layer{S, H, W, channels};
    const auto one = channels == 16 ? backward<1> : backward<2>;
    const i64 parts = std::clamp(N / 8, i64(1), i64(32)), size = layer.weights() + channels;
    std::vector<Line> kept = lines(parts * size);
    float* const sums = kept.data()->number;
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        for (i64 p = from; p < to; p++) {
            float* sum = sums + p * size;
            for (i64 i = N * p / parts; i < N * (p + 1) / parts; i++) {
                one(layer, at<const std::uint8_t>(pictures) + i * stride, at<const float>(grad) + i * layer.output(),
                    at<const float>(out) + i * layer.output(), sum, sum + layer.weights(), scratch_of(layer.scratch()));
            }
        }
    };
    share(parts, threads, part, 1);
    add_up(sums, parts, size, threads);
    std::copy_n(sums, layer.weights(), at<float>(d_weight));
    std::copy_n(sums + layer.weights(), channels, at<float>(d_bias));
}

}  // namespace accel
