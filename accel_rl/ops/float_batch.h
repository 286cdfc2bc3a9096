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
#include "products.h"
#include "threads.h"

namespace accel {

namespace py = pybind11;

inline FloatLayer float_layer_of(const Geometry& g) { return {g[0], g[1], g[2], g[3], g[4], g[5], g[6]}; }

#if defined(__x86_64__) && defined(__GNUC__)

// Where the numbers of a weight [D, C, k, k] lie as taps [r r][s s C][D], or [r r][D][s s C] `by_output`: number i of channel d
// at first[d] + then[i].
struct Places {
    std::vector<i64> first, then;

    Places(const FloatLayer& l, bool by_output) : first(size_t(l.D)), then(size_t(l.C * l.k * l.k)) {
        for (i64 d = 0; d < l.D; d++) first[size_t(d)] = by_output ? d * l.channels() : d;
        for (i64 c = 0; c < l.C; c++)
            for (i64 y = 0; y < l.k; y++)
                for (i64 x = 0; x < l.k; x++) {
                    const i64 tap = y / l.s * l.r + x / l.s, channel = (y % l.s * l.s + x % l.s) * l.C + c;
                    then[size_t((c * l.k + y) * l.k + x)] = tap * l.weights() + channel * (by_output ? 1 : l.D);
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
                for (i64 i = line; i < std::min(line + 8, all); i++) move(first[size_t(d)] + then[size_t(i)], d * all + i);
    }
};

// What a layer is made of, with its number of taps and its block of channels known to the compiler.
struct Steps {
    decltype(&input_points<2>) input_points;
    decltype(&input_values<2>) input_values;
    decltype(&output_points<2>) output_points;
    decltype(&output_values<2>) output_values;
    decltype(&weight_points<2>) weight_points;
    decltype(&weight_values<2>) weight_values;
    decltype(&product<4>) to_output, to_input;
    decltype(&turned_product<4>) to_weight;

    explicit Steps(const FloatLayer& l)
        : Steps(l.r == 2 ? of<2>() : of<3>()) {
        to_output = l.block() == 64 ? product<4> : l.block() == 32 ? product<2> : product<1>;
        to_input = l.chunk() == 64 ? product<4> : l.chunk() == 32 ? product<2> : product<1>;
        to_weight = l.block() == 64 ? turned_product<4> : l.block() == 32 ? turned_product<2> : turned_product<1>;
    }

   private:
    Steps() = default;
    template <int R>
    static Steps of() {
        Steps steps;
        steps.input_points = accel::input_points<R>;
        steps.input_values = accel::input_values<R>;
        steps.output_points = accel::output_points<R>;
        steps.output_values = accel::output_values<R>;
        steps.weight_points = accel::weight_points<R>;
        steps.weight_values = accel::weight_values<R>;
        return steps;
    }
};

// Pictures whose points lie in the cache together.
struct Block {
    const i64 most, rows, of_input, of_output;  // pictures; tiles; floats of a point

    explicit Block(const FloatLayer& l, i64 pictures)
        : most(std::clamp((i64(1) << 17) / (l.points() * l.tiles() * l.channels()), i64(1), std::max(i64(1), pictures))),
          rows(most * l.tiles()), of_input(rows * l.channels() + 16), of_output(rows * l.D + 16) {}  // + 16: in other sets of the cache
};

// input [N, H, W, C], weight [D, C, k, k], bias [D] -> out [N, rows, columns, D].
inline void float_layer(i64 N, const Geometry& geometry, address input, address weight, address bias, address out,
                        int threads) {
    py::gil_scoped_release nogil;
    const FloatLayer layer = float_layer_of(geometry);
    const Steps steps(layer);
    const i64 points = layer.points(), tiles = layer.tiles();
    const float* const weights =
        prepared(geometry, at<const float>(weight), layer.all_weights(), points * layer.weights(), [&](float* numbers) {
            std::vector<Line> taps = lines(layer.all_weights());
            Places(layer, false).in_order(at<const float>(weight), taps.data()->number);
            steps.weight_points(taps.data()->number, layer.D, layer.channels(), layer.block(), numbers);
        });
    const Block block(layer, (N + threads - 1) / threads);
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        float* const bordered = scratch_of(layer.bordered() + points * (block.of_input + block.of_output));
        float* const x = bordered + layer.bordered();
        float* const y = x + points * block.of_input;
        for (i64 n; from < to; from += n) {
            n = std::min(block.most, to - from);
            for (i64 i = 0; i < n; i++) {
                const float* const picture = with_border(layer, at<const float>(input) + (from + i) * layer.input(), bordered);
                steps.input_points(layer, picture, at<const float>(input) + (from + i + 1) * layer.input(), x + i * tiles * layer.channels(), block.of_input);
            }
            for (i64 p = 0; p < points; p++)
                steps.to_output(x + p * block.of_input, n * tiles, layer.channels(), weights + p * layer.weights(), layer.D,
                                y + p * block.of_output);
            for (i64 i = 0; i < n; i++)
                steps.output_values(layer, y + i * tiles * layer.D, block.of_output, at<const float>(bias),
                                    at<float>(out) + (from + i) * layer.output());
        }
    };
    share(N, threads, part, block.most);
}

// grad, out [N, rows, columns, D], weight [D, C, k, k] -> d_weight as weight, d_bias [D], and d_input [N, H, W, C] unless 0.
// The batch is summed up in parts that do not depend on the number of threads.
inline void float_layer_back(i64 N, const Geometry& geometry, address input, address grad, address out, address weight,
                             address d_input, address d_weight, address d_bias, int threads) {
    py::gil_scoped_release nogil;
    const FloatLayer layer = float_layer_of(geometry);
    const Steps steps(layer);
    const i64 points = layer.points(), tiles = layer.tiles(), channels = layer.channels(), D = layer.D;
    const i64 parts = std::clamp(N / 8, i64(1), i64(16)), size = layer.all_weights() + D;
    std::vector<Line> kept = lines(parts * size), taps = lines(layer.all_weights()), turned = lines(d_input ? points * layer.weights() : 0);
    float* const sums = kept.data()->number;
    float* const weights = turned.data() ? turned.data()->number : nullptr;
    if (d_input) {
        Places(layer, true).in_order(at<const float>(weight), taps.data()->number);
        steps.weight_points(taps.data()->number, channels, D, layer.chunk(), weights);
    }
    const Block block(layer, (N + parts - 1) / parts);
    const std::function<void(i64, i64)> part = [&](i64 first, i64 last) {
        float* const bordered = scratch_of(layer.bordered() + points * (layer.weights() + block.of_input + block.of_output));
        float* const d_points = bordered + layer.bordered();
        float* const x = d_points + points * layer.weights();
        float* const y = x + points * block.of_input;
        for (i64 p = first; p < last; p++) {
            float* const sum = sums + p * size;
            std::fill_n(d_points, points * layer.weights(), 0.0f);
            for (i64 from = N * p / parts, to = N * (p + 1) / parts, n; from < to; from += n) {
                n = std::min(block.most, to - from);
                for (i64 i = 0; i < n; i++) {
                    const float* const picture = with_border(layer, at<const float>(input) + (from + i) * layer.input(), bordered);
                    steps.input_points(layer, picture, at<const float>(input) + (from + i + 1) * layer.input(), x + i * tiles * channels, block.of_input);
                    const i64 at_output = (from + i) * layer.output();
                    steps.output_points(layer, at<const float>(grad) + at_output, at<const float>(out) + at_output,
                                        y + i * tiles * D, block.of_output, sum + layer.all_weights());
                }
                for (i64 q = 0; q < points; q++) {
                    float* const of_x = x + q * block.of_input;
                    const float* const of_y = y + q * block.of_output;
                    steps.to_weight(of_x, channels, of_y, D, n * tiles, d_points + q * layer.weights());
                    if (d_input) steps.to_input(of_y, n * tiles, D, weights + q * layer.weights(), channels, of_x);
                }
                for (i64 i = 0; i < n && d_input; i++) {
                    float* const d_picture = at<float>(d_input) + (from + i) * layer.input();
                    float* const all = layer.bare ? d_picture : bordered;
                    std::fill_n(all, layer.height() * layer.line(), 0.0f);
                    steps.input_values(layer, x + i * tiles * channels, block.of_input, all);
                    if (!layer.bare) without_border(layer, all, d_picture);
                }
            }
            steps.weight_values(d_points, D, channels, layer.block(), sum);
        }
    };
    share(parts, threads, part, 1);
    add_up(sums, parts, size, threads);
    Places(layer, false).as_they_were(sums, at<float>(d_weight));
    std::copy_n(sums + layer.all_weights(), D, at<float>(d_bias));
}

#else

template <class... Any>
void float_layer(const Any&...) {}
template <class... Any>
void float_layer_back(const Any&...) {}

#endif

}  // namespace accel
