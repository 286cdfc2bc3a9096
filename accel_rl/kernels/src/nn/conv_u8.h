// Computes the first layer of a network, an 8 x 8 convolution of uint8 frames with stride 4, with or without a ReLU.
// | picture [S, H, W] bytes  ->  cells [H / 4, W / 4] of [S, 4, 4] bytes, in the cache  ->  a 2 x 2 convolution (conv_f32.h)
//
// Frames are converted to floats, which have four times the size, only in registers. Sums and differences of bytes are
// exact. conv_u8_frames reads the frames of stacks in place, so that the stacks need not be gathered.
//
// vector_kernels.h includes this header once for each instruction set.

namespace accel::ACCEL_FORM {

// Pictures [S, H, W] at distances of `stride` bytes, with `plane` bytes per frame.
struct Stored {
    const std::uint8_t* first;
    i64 stride, plane;

    const std::uint8_t* frame(i64 i, i64 s) const { return first + i * stride + s * plane; }
    i64 together(i64 S) const { return S * plane; }  // A picture has S contiguous frames of `plane` bytes.
};

// Pictures of S successive frames each, which are read where they are stored: the stacks that `gather_stacks`
// (frame_stacks.h) would copy.
struct Framed {
    const std::uint8_t* frames;
    i64 row, column;
    const i64 *t, *b;
    const std::uint8_t* age;
    i64 S, plane;
    const std::uint8_t* zeros;

    const std::uint8_t* frame(i64 i, i64 s) const {
        return S - 1 - s > i64(age[i]) ? zeros : frames + (t[i] + s) * row + b[i] * column;
    }
    i64 together(i64) const { return plane; }
};

// A batch of pictures that consist of uint8 frames.
template <class Source>
struct Stacks {
    using Number = std::uint8_t;
    static constexpr i64 SIDE = 4, CELL = SIDE * SIDE;
    const i64 N, S, W;
    const ConvF32 layer;
    const Source source;

    Stacks(i64 N, i64 S, i64 H, i64 W, i64 D, const Source& source)
        : N(N), S(S), W(W), layer(S * CELL, H / SIDE, W / SIDE, D, 2, 1, 0, WIDE, false), source(source) {}

    i64 bytes() const { return source.together(S); }
    const char* at(i64 i) const { return reinterpret_cast<const char*>(source.frame(std::min(i, N - 1), 0)); }
    WeightLayout places(bool by_output) const { return {S, layer.D, 2 * SIDE, SIDE, true, by_output}; }
    const std::uint8_t* bordered(i64 i, std::uint8_t* scratch) const {
        for (i64 s = 0; s < S; s++) {
            const std::uint8_t* const frame = source.frame(i, s);
            for (i64 y = 0; y < layer.H; y++) cells(frame + y * SIDE * W, scratch + y * layer.line() + s * CELL);
        }
        return scratch;
    }

  private:
    // Rearranges four rows of a plane to a row of cells of 4 x 4 pixels.
    void cells(const std::uint8_t* rows, std::uint8_t* to) const {
        i64 x = 0;
        for (; x + 4 <= layer.W; x += 4, to += 4 * layer.C) {
            __m128i r[4];
            for (int i = 0; i < 4; i++) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + i * W + SIDE * x));
            const __m128i a = _mm_unpacklo_epi32(r[0], r[1]), b = _mm_unpacklo_epi32(r[2], r[3]);
            const __m128i c = _mm_unpackhi_epi32(r[0], r[1]), d = _mm_unpackhi_epi32(r[2], r[3]);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi64(a, b));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + layer.C), _mm_unpackhi_epi64(a, b));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * layer.C), _mm_unpacklo_epi64(c, d));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 3 * layer.C), _mm_unpackhi_epi64(c, d));
        }
        for (; x < layer.W; x++, to += layer.C)
            for (i64 i = 0; i < SIDE; i++) std::memcpy(to + SIDE * i, rows + i * W + SIDE * x, SIDE);
    }
};

// Computes out [N, rows, columns, D] of pictures [N, S, H, W] uint8 / 255, weight [D, S, 8, 8] and bias [D].
inline void conv_u8(i64 N, i64 S, i64 H, i64 W, i64 D, address pictures, i64 stride, address weight, address bias, address out,
                    bool relu, int threads) {
    convolutions(N, {S, H, W, D, 8, 4, 0}, Stacks(N, S, H, W, D, Stored{at<const std::uint8_t>(pictures), stride, H * W}),
                 at<const float>(weight), 255.0f, at<const float>(bias), at<float>(out), relu, threads);
}

// Computes the convolution of stacks that are not copied, but read where their frames are stored.
inline void conv_u8_frames(i64 N, i64 S, i64 H, i64 W, i64 D, address frames, i64 row, i64 column, address t, address b,
                           address age, address weight, address bias, address out, bool relu, int threads) {
    const std::vector<std::uint8_t> zeros(size_t(H * W));
    const Framed source{at<const std::uint8_t>(frames), row, column, at<const i64>(t), at<const i64>(b),
                        at<const std::uint8_t>(age),    S,   H * W,  zeros.data()};
    convolutions(N, {S, H, W, D, 8, 4, 0}, Stacks(N, S, H, W, D, source), at<const float>(weight), 255.0f, at<const float>(bias),
                 at<float>(out), relu, threads);
}

// Computes d_weight [D, S, 8, 8] for pictures that are not divided by 255, and d_bias [D], from grad [N, rows, columns,
// D]. With a ReLU, `out` are the outputs [N, rows, columns, D]; without a ReLU, `out` is 0.
inline void conv_u8_back(i64 N, i64 S, i64 H, i64 W, i64 D, address pictures, i64 stride, address grad, address out,
                         address d_weight, address d_bias, int threads) {
    convolutions_back(N, Stacks(N, S, H, W, D, Stored{at<const std::uint8_t>(pictures), stride, H * W}), at<const float>(grad),
                      at<const float>(out), nullptr, nullptr, at<float>(d_weight), at<float>(d_bias), threads);
}

}  // namespace accel::ACCEL_FORM
