// Transforms pictures, outputs and weights of a convolution to points (winograd.h) and back, WIDE channels at a time.
// vector_kernels.h includes this header once for each instruction set.

namespace accel::ACCEL_FORM {

// Transforms a picture with its border to points [n n][plane]. Prefetches `next`, the next picture of `bytes` bytes.
template <int R, class Number>
ACCEL_VECTOR void input_points(const ConvF32& l, const Number* picture, const char* next, std::int64_t bytes, float* points,
                               std::int64_t plane) {
    constexpr int n = Winograd<R>::points;
    // the number of cache lines that each step of the loop prefetches
    const std::int64_t share = bytes * WIDE / (64 * l.tiles() * l.channels()) + 1;
    for (std::int64_t t = 0; t < l.tiles(); t++) {
        for (const std::int64_t c : l.numbers) {
            for (std::int64_t i = 0; i < share; i++, next += 64) _mm_prefetch(next, _MM_HINT_T1);
            const Number* const from = picture + l.begins[size_t(t)] + c;
            Vector x[n][n], y[n][n];
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) x[i][j] = numbers_at(from + i * l.below + j * l.beside);
            to_points_2d<Winograd<R>::input, n, n>(x, y);
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) ACCEL_MM(storeu_ps)(points + (i * n + j) * plane, y[i][j]);
            points += WIDE;
        }
    }
}

// Transforms points back, and adds the result to `picture`, the gradient of a picture with its border.
template <int R>
ACCEL_VECTOR void input_values(const ConvF32& l, const float* points, std::int64_t plane, float* picture) {
    constexpr int n = Winograd<R>::points;
    for (std::int64_t t = 0; t < l.tiles(); t++) {
        for (const std::int64_t c : l.numbers) {
            float* const to = picture + l.begins[size_t(t)] + c;
            Vector x[n][n], y[n][n];
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) x[i][j] = ACCEL_MM(loadu_ps)(points + (i * n + j) * plane);
            to_values_2d<Winograd<R>::input, n, n>(x, y);
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) {
                    float* const number = to + i * l.below + j * l.beside;
                    ACCEL_MM(storeu_ps)(number, ACCEL_MM(add_ps)(ACCEL_MM(loadu_ps)(number), y[i][j]));
                }
            points += WIDE;
        }
    }
}

// Transforms points [n n][plane] to out [rows, columns, D], adds the bias, and raises values below `least` to `least`,
// which is 0 with a ReLU, and -infinity without a ReLU.
template <int R>
ACCEL_VECTOR void output_values(const ConvF32& l, const float* points, std::int64_t plane, const float* bias, float least,
                                float* out) {
    constexpr int n = Winograd<R>::points, m = Winograd<R>::outputs;
    const Vector floor = ACCEL_MM(set1_ps)(least);
    for (std::int64_t top = 0; top < l.rows; top += m) {
        for (std::int64_t left = 0; left < l.columns; left += m) {
            const std::int64_t high = std::min<std::int64_t>(m, l.rows - top), wide = std::min<std::int64_t>(m, l.columns - left);
            for (std::int64_t d = 0; d < l.D; d += WIDE, points += WIDE) {
                Vector x[n][n], y[m][m];
                for (int i = 0; i < n; i++)
                    for (int j = 0; j < n; j++) x[i][j] = ACCEL_MM(loadu_ps)(points + (i * n + j) * plane);
                to_values_2d<Winograd<R>::output, n, m>(x, y);
                const Vector b = ACCEL_MM(loadu_ps)(bias + d);
                for (std::int64_t i = 0; i < high; i++)
                    for (std::int64_t j = 0; j < wide; j++)  // With this order of operands, NaN stays NaN.
                        ACCEL_MM(storeu_ps)(out + ((top + i) * l.columns + left + j) * l.D + d,
                                            ACCEL_MM(max_ps)(floor, ACCEL_MM(add_ps)(y[i][j], b)));
            }
        }
    }
}

// Transforms the gradient where out > 0, or the whole gradient if `out` is null, to points. Adds the gradient's sums
// over all positions to the bias gradient [D].
template <int R>
ACCEL_VECTOR void output_points(const ConvF32& l, const float* grad, const float* out, float* points, std::int64_t plane,
                                float* bias) {
    constexpr int n = Winograd<R>::points, m = Winograd<R>::outputs;
    for (std::int64_t top = 0; top < l.rows; top += m) {
        for (std::int64_t left = 0; left < l.columns; left += m) {
            for (std::int64_t d = 0; d < l.D; d += WIDE, points += WIDE) {
                Vector x[m][m], y[n][n], sum = ACCEL_MM(loadu_ps)(bias + d);
                for (std::int64_t i = 0; i < m; i++)
                    for (std::int64_t j = 0; j < m; j++) {
                        x[i][j] = ACCEL_MM(setzero_ps)();
                        if (top + i >= l.rows || left + j >= l.columns) continue;
                        const std::int64_t at = ((top + i) * l.columns + left + j) * l.D + d;
                        x[i][j] = out ? where_positive(out + at, grad + at) : ACCEL_MM(loadu_ps)(grad + at);
                        sum = ACCEL_MM(add_ps)(sum, x[i][j]);
                    }
                ACCEL_MM(storeu_ps)(bias + d, sum);
                to_points_2d<Winograd<R>::output, n, m>(x, y);
                for (int i = 0; i < n; i++)
                    for (int j = 0; j < n; j++) ACCEL_MM(storeu_ps)(points + (i * n + j) * plane, y[i][j]);
            }
        }
    }
}

// Transforms taps [r r][outer][inner] to points [n n][inner / wide][outer][wide].
template <int R>
ACCEL_VECTOR void weight_points(const float* taps, std::int64_t inner, std::int64_t outer, std::int64_t wide, float* points) {
    constexpr int n = Winograd<R>::points;
    const std::int64_t all = inner * outer;
    for (std::int64_t o = 0; o < outer; o++) {
        for (std::int64_t i = 0; i < inner; i += WIDE, taps += WIDE) {
            float* const to = points + (i / wide * outer + o) * wide + i % wide;
            Vector x[R][R], y[n][n];
            for (int a = 0; a < R; a++)
                for (int b = 0; b < R; b++) x[a][b] = ACCEL_MM(loadu_ps)(taps + (a * R + b) * all);
            to_points_2d<Winograd<R>::weight, n, R>(x, y);
            for (int a = 0; a < n; a++)
                for (int b = 0; b < n; b++) ACCEL_MM(storeu_ps)(to + (a * n + b) * all, y[a][b]);
        }
    }
}

// Transforms points [n n][inner / wide][outer][wide] to taps [r r][outer][inner].
template <int R>
ACCEL_VECTOR void weight_values(const float* points, std::int64_t inner, std::int64_t outer, std::int64_t wide, float* taps) {
    constexpr int n = Winograd<R>::points;
    const std::int64_t all = inner * outer;
    for (std::int64_t o = 0; o < outer; o++) {
        for (std::int64_t i = 0; i < inner; i += WIDE, taps += WIDE) {
            const float* const from = points + (i / wide * outer + o) * wide + i % wide;
            Vector x[n][n], y[R][R];
            for (int a = 0; a < n; a++)
                for (int b = 0; b < n; b++) x[a][b] = ACCEL_MM(loadu_ps)(from + (a * n + b) * all);
            to_values_2d<Winograd<R>::weight, n, R>(x, y);
            for (int a = 0; a < R; a++)
                for (int b = 0; b < R; b++) ACCEL_MM(storeu_ps)(taps + (a * R + b) * all, y[a][b]);
        }
    }
}

}  // namespace accel::ACCEL_FORM
