// Computes float32 convolutions of batches of pictures on torch's threads.
// vector_kernels.h includes this header once for each instruction set.

namespace accel::ACCEL_FORM {

inline ConvF32 conv_f32_of(const Geometry& g) { return {g[0], g[1], g[2], g[3], g[4], g[5], g[6], WIDE}; }

// A batch of pictures [H, W, C].
struct Pictures {
    using Number = float;
    const ConvF32 layer;
    const float* const first;

    i64 bytes() const { return layer.input() * 4; }
    const char* at(i64 i) const { return reinterpret_cast<const char*>(first + i * layer.input()); }
    const float* bordered(i64 i, float* scratch) const { return with_border(layer, first + i * layer.input(), scratch); }
    WeightLayout places(bool by_output) const { return {layer.C, layer.D, layer.k, layer.s, false, by_output}; }
};

// Pointers to the functions that are compiled for a layer's number of taps and block size of channels.
template <class Number>
struct Steps {
    decltype(&ACCEL_FORM::input_points<2, Number>) input_points;
    decltype(&ACCEL_FORM::input_values<2>) input_values;
    decltype(&ACCEL_FORM::output_points<2>) output_points;
    decltype(&ACCEL_FORM::output_values<2>) output_values;
    decltype(&ACCEL_FORM::weight_points<2>) weight_points;
    decltype(&ACCEL_FORM::weight_values<2>) weight_values;
    decltype(&product<2>) to_output, to_input;
    decltype(&turned_product<2>) to_weight;

    explicit Steps(const ConvF32& l) {
        l.r == 2 ? take<2>() : take<3>();
        const i64 block = widest(l.D) / WIDE, chunk = widest(l.channels()) / WIDE;
        to_output = to_input = product<2>, to_weight = turned_product<2>;
        if constexpr (WIDE == 16) {
            if (block != 2) to_output = block == 4 ? product<4> : product<1>;
            if (chunk != 2) to_input = chunk == 4 ? product<4> : product<1>;
            if (block != 2) to_weight = block == 4 ? turned_product<4> : turned_product<1>;
        }
    }

  private:
    template <int R>
    void take() {
        input_points = ACCEL_FORM::input_points<R, Number>;
        input_values = ACCEL_FORM::input_values<R>;
        output_points = ACCEL_FORM::output_points<R>;
        output_values = ACCEL_FORM::output_values<R>;
        weight_points = ACCEL_FORM::weight_points<R>;
        weight_values = ACCEL_FORM::weight_values<R>;
    }
};

// The number of pictures that are processed together, so that their points fit into the cache.
struct Block {
    const i64 most, rows, of_input, of_output;

    Block(const ConvF32& l, i64 pictures)
        : most(std::clamp((i64(1) << 17) / (l.points() * l.tiles() * l.channels()), i64(1), std::max(i64(1), pictures))),
          rows(most * l.tiles()), of_input(rows * l.channels() + 16), of_output(rows * l.D + 16) {
    }  // Sixteen surplus floats put successive points into different cache sets.
};

// Transforms n input pictures from `begin` on to points (winograd.h).
template <class Input>
void take_in(const Input& input, const Steps<typename Input::Number>& steps, i64 begin, i64 n, typename Input::Number* bordered,
             float* points, i64 plane) {
    const i64 next = input.layer.tiles() * input.layer.channels();
    for (i64 i = begin; i < begin + n; i++, points += next)
        steps.input_points(input.layer, input.bordered(i, bordered), input.at(i + 1), input.bytes(), points, plane);
}

// Computes out [N, rows, columns, D] from weight [D, C, k, k] / divisor and bias [D], with a ReLU if `relu`.
template <class Input>
void convolutions(i64 N, const Geometry& geometry, const Input& input, const float* weight, float divisor, const float* bias,
                  float* out, bool relu, int threads) {
    const float least = relu ? 0.0f : -std::numeric_limits<float>::infinity();
    const ConvF32& layer = input.layer;
    const Steps<typename Input::Number> steps(layer);
    const i64 points = layer.points(), tiles = layer.tiles();
    const float* const weights = prepared(geometry, weight, layer.all_weights(), points * layer.weights(), [&](float* numbers) {
        std::vector<Line> kept = lines(layer.all_weights());
        float* const taps = kept.data()->number;
        input.places(false).in_order(weight, taps);
        for (i64 i = 0; i < layer.all_weights(); i++) taps[i] /= divisor;
        steps.weight_points(taps, layer.D, layer.channels(), widest(layer.D), numbers);
    });
    const Block block(layer, (N + threads - 1) / threads);
    const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
        float* const bordered = scratch_of(layer.bordered() + points * (block.of_input + block.of_output));
        float* const x = bordered + layer.bordered();
        float* const y = x + points * block.of_input;
        std::fill_n(bordered, layer.bordered(), 0.0f);
        for (i64 n; from < to; from += n) {
            n = std::min(block.most, to - from);
            take_in(input, steps, from, n, reinterpret_cast<typename Input::Number*>(bordered), x, block.of_input);
            for (i64 p = 0; p < points; p++)
                steps.to_output(x + p * block.of_input, n * tiles, layer.channels(), weights + p * layer.weights(), layer.D,
                                y + p * block.of_output);
            for (i64 i = 0; i < n; i++)
                steps.output_values(layer, y + i * tiles * layer.D, block.of_output, bias, least,
                                    out + (from + i) * layer.output());
        }
    };
    share(N, threads, part, block.most);
}

// Computes d_weight, d_bias [D], and d_input unless d_input is null, from grad and weight [D, C, k, k].
// With a ReLU, `out` are the outputs [N, rows, columns, D]; without a ReLU, `out` is null. The gradients are summed
// over the same parts of the batch for any number of threads, so that the result does not depend on this number.
template <class Input>
void convolutions_back(i64 N, const Input& input, const float* grad, const float* out, const float* weight, float* d_input,
                       float* d_weight, float* d_bias, int threads) {
    const ConvF32& layer = input.layer;
    const Steps<typename Input::Number> steps(layer);
    const i64 points = layer.points(), tiles = layer.tiles(), channels = layer.channels(), D = layer.D;
    const i64 parts = std::clamp(N / 8, i64(1), i64(16)), size = layer.all_weights() + D;
    std::vector<Line> kept = lines(parts * size), turned;
    float *const sums = kept.data()->number, *weights = nullptr;
    if (d_input) {
        std::vector<Line> taps = lines(layer.all_weights());
        turned = lines(points * layer.weights());
        weights = turned.data()->number;
        input.places(true).in_order(weight, taps.data()->number);
        steps.weight_points(taps.data()->number, channels, D, widest(channels), weights);
    }
    const Block block(layer, (N + parts - 1) / parts);
    const std::function<void(i64, i64)> part = [&](i64 first, i64 last) {
        float* const bordered = scratch_of(2 * layer.bordered() + points * (layer.weights() + block.of_input + block.of_output));
        float* const d_bordered = bordered + layer.bordered();
        float* const d_points = d_bordered + layer.bordered();
        float* const x = d_points + points * layer.weights();
        float* const y = x + points * block.of_input;
        std::fill_n(bordered, layer.bordered(), 0.0f);
        for (i64 p = first; p < last; p++) {
            float* const sum = sums + p * size;
            std::fill_n(d_points, points * layer.weights(), 0.0f);
            for (i64 from = N * p / parts, to = N * (p + 1) / parts, n; from < to; from += n) {
                n = std::min(block.most, to - from);
                take_in(input, steps, from, n, reinterpret_cast<typename Input::Number*>(bordered), x, block.of_input);
                for (i64 i = 0; i < n; i++)
                    steps.output_points(layer, grad + (from + i) * layer.output(),
                                        out ? out + (from + i) * layer.output() : nullptr, y + i * tiles * D, block.of_output,
                                        sum + layer.all_weights());
                for (i64 q = 0; q < points; q++) {
                    float* const of_x = x + q * block.of_input;
                    const float* const of_y = y + q * block.of_output;
                    steps.to_weight(of_x, channels, of_y, D, n * tiles, d_points + q * layer.weights());
                    if (d_input) steps.to_input(of_y, n * tiles, D, weights + q * layer.weights(), channels, of_x);
                }
                for (i64 i = 0; i < n && d_input; i++) {
                    float* const d_picture = d_input + (from + i) * layer.input();
                    float* const all = layer.bare ? d_picture : d_bordered;
                    std::fill_n(all, layer.height() * layer.line(), 0.0f);
                    steps.input_values(layer, x + i * tiles * channels, block.of_input, all);
                    if (!layer.bare) without_border(layer, all, d_picture);
                }
            }
            steps.weight_values(d_points, D, channels, widest(layer.D), sum);
        }
    };
    share(parts, threads, part, 1);
    add_up(sums, parts, size, threads);
    input.places(false).as_they_were(sums, d_weight);
    std::copy_n(sums + layer.all_weights(), D, d_bias);
}

// Computes out [N, rows, columns, D] from input [N, H, W, C], weight [D, C, k, k] and bias [D].
inline void conv_f32_winograd(i64 N, const Geometry& geometry, address input, address weight, address bias, address out,
                              bool relu, int threads) {
    convolutions(N, geometry, Pictures{conv_f32_of(geometry), at<const float>(input)}, at<const float>(weight), 1.0f,
                 at<const float>(bias), at<float>(out), relu, threads);
}

// Computes d_weight, d_bias [D], and d_input [N, H, W, C] unless d_input is 0. Without a ReLU, `out` is 0.
inline void conv_f32_back(i64 N, const Geometry& geometry, address input, address grad, address out, address weight,
                          address d_input, address d_weight, address d_bias, int threads) {
    convolutions_back(N, Pictures{conv_f32_of(geometry), at<const float>(input)}, at<const float>(grad), at<const float>(out),
                      at<const float>(weight), at<float>(d_input), at<float>(d_weight), at<float>(d_bias), threads);
}

}  // namespace accel::ACCEL_FORM
