// Batches through float32 layers, on torch's threads.
#pragma once
#include <pybind11/pybind11.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "address.h"
#include "float_layer.h"
#include "lines.h"
#include "prepared.h"
#include "threads.h"

namespace accel {

namespace py = pybind11;

inline FloatLayer float_layer_of(const Geometry& g) { return {g[0], g[1], g[2], g[3], g[4], g[5], g[6]}; }

#if defined(__x86_64__) && defined(__GNUC__)

// Where the numbers of a weight [D, C, k, k] lie for the two ways: number i of channel d at first[d] + then[i].
struct Places {
    std::vector<i64> first, then;

    Places(const FloatLayer& l, bool forward) : first(size_t(l.D)), then(size_t(l.row() * l.k)) {
        const i64 block = l.block(), chunk = l.chunk();
        for (i64 d = 0; d < l.D; d++)
            first[size_t(d)] = forward ? d / block * l.k * l.row() * block + d % block : d * chunk;
        for (i64 c = 0; c < l.C; c++)
            for (i64 tap = 0; tap < l.k * l.k; tap++) {
                const i64 at = tap / l.k * l.row() + tap % l.k * l.C + c;  // in [k, k, C]
                then[size_t(c * l.k * l.k + tap)] = forward ? at * block : at / chunk * l.D * chunk + at % chunk;
            }
    }
    void in_order(const float* weight, float* out) const {
        each([=](i64 place, i64 number) { out[place] = weight[number]; });
    }
    void as_they_were(const float* in, float* weight) const {
        each([=](i64 place, i64 number) { weight[number] = in[place]; });
    }

   private:
    // Eight numbers of each channel, then the next eight: neighbouring channels' places share their lines of the cache, and
    // it has room for twelve that lie powers of two apart. A channel after the other took ten times as long.
    template <class Move>
    void each(Move move) const {
        const i64 D = i64(first.size()), all = i64(then.size());
        for (i64 line = 0; line < all; line += 8)
            for (i64 d = 0; d < D; d++)
                for (i64 i = line; i < line + 8; i++) move(first[size_t(d)] + then[size_t(i)], d * all + i);
    }
};

// input [N, H, W, C], weight [D, C, k, k], bias [D] -> out [N, rows, columns, D].
inline void float_layer(i64 N, const Geometry& geometry, address input, address weight, address bias, address out,
                        int threads) {
    py::gil_scoped_release nogil;
    const FloatLayer layer = float_layer_of(geometry);
    const auto one = layer.block() == 64 ? float_outputs<4> : layer.block() == 32 ? float_outputs<2> : float_outputs<1>;
    const float* const ordered =
        prepared(geometry, at<const float>(weight), layer.weights(), layer.weights(),
                 [&](float* numbers) { Places(layer, true).in_order(at<const float>(weight), numbers); });
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        float* const scratch = scratch_of(layer.padded());
        for (i64 i = from; i < to; i++) {
            one(layer, at<const float>(input) + i * layer.input(), ordered, at<const float>(bias),
                at<float>(out) + i * layer.output(), scratch);
        }
    };
    share(N, threads, part, 1);
}

// grad, out [N, rows, columns, D], weight [D, C, k, k] -> d_weight as weight, d_bias [D], and d_input [N, H, W, C] unless 0.
// The batch is summed up in parts that do not depend on the number of threads.
inline void float_layer_back(i64 N, const Geometry& geometry, address input, address grad, address out, address weight,
                             address d_input, address d_weight, address d_bias, int threads) {
    py::gil_scoped_release nogil;
    const FloatLayer layer = float_layer_of(geometry);
    const auto to_weight = layer.block() == 64   ? float_weights<4>
                           : layer.block() == 32 ? float_weights<2>
                                                 : float_weights<1>;
    const auto to_input = layer.chunk() == 64   ? float_inputs<4>
                          : layer.chunk() == 32 ? float_inputs<2>
                                                : float_inputs<1>;
    const i64 parts = std::clamp(N / 8, i64(1), i64(16)), size = layer.weights() + layer.D;
    std::vector<Line> kept = lines(parts * size), turned = lines(d_input ? layer.weights() : 0);
    float* const sums = kept.data()->number;
    if (d_input) Places(layer, false).in_order(at<const float>(weight), turned.data()->number);
    const auto picture = [&](i64 i, float* sum, float* scratch) {
        float* const padded = scratch;
        float* const passed = padded + layer.padded();
        float* const d_padded = passed + layer.output();
        through_relu(layer, at<const float>(grad) + i * layer.output(), at<const float>(out) + i * layer.output(), passed,
                     sum + layer.weights());
        to_weight(layer, with_border(layer, at<const float>(input) + i * layer.input(), padded), passed, sum);
        if (!d_input) return;
        float* const to = at<float>(d_input) + i * layer.input();
        float* const all = layer.p ? d_padded : to;
        std::fill_n(all, layer.padded(), 0.0f);
        to_input(layer, passed, turned.data()->number, all);
        if (layer.p) without_border(layer, all, to);
    };
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        float* const scratch = scratch_of(2 * layer.padded() + layer.output());
        for (i64 p = from; p < to; p++)
            for (i64 i = N * p / parts; i < N * (p + 1) / parts; i++) picture(i, sums + p * size, scratch);
    };
    share(parts, threads, part, 1);
    add_up(sums, parts, size, threads);
    Places(layer, true).as_they_were(sums, at<float>(d_weight));
    std::copy_n(sums + layer.weights(), layer.D, at<float>(d_bias));
}

#else

template <class... Any>
void float_layer(const Any&...) {}
template <class... Any>
void float_layer_back(const Any&...) {}

#endif

}  // namespace accel
