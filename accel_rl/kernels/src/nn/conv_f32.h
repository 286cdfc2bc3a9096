// Convolutions of channels-last float32 pictures, and their gradients, by Winograd's algorithms (winograd.h). With
// stride s, each block of s x s pixels is treated as one pixel with s s C channels. A kernel of size k = r s then has r
// x r taps and stride 1.
// | picture --to points--> [n n][tiles][s s C]  x  [n n][s s C][D]  =  [n n][tiles][D] --to values--> outputs, a tile m x m
// | gradient of the outputs --to points--> [n n][tiles][D], which times the weights' points is the input's gradient's
// |                                                          and times the input's points the weights' gradient's
//
// Winograd's algorithms need a quarter (F(4, 3)) or 4/9 (F(3, 2)) of the multiplications of a direct convolution. Terms
// are always added in the same order, so that the result of a picture is bitwise identical in any batch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "winograd.h"

namespace accel {

// The geometry of a convolution. Pictures are [H, W, C] and outputs are [rows, columns, D], where C and D are multiples
// of 16, and r = k / s is 2 or 3. `wide` channels are processed at a time.
struct ConvF32 {
    const std::int64_t C, H, W, D, k, s, p, r, rows, columns;
    const std::int64_t m, n;          // A tile has m x m outputs and n x n points.
    const std::int64_t down, across;  // The tiles of a picture have `down` rows and `across` columns.
    const bool bare;                  // A picture is bare (no border) if tiles read nothing beyond it.
    // Offsets in a picture with a border, which are computed only once, because they need slow divisions.
    const std::int64_t below, beside;
    std::vector<std::int64_t> begins, numbers;

    ConvF32(std::int64_t C, std::int64_t H, std::int64_t W, std::int64_t D, std::int64_t k, std::int64_t s, std::int64_t p,
            std::int64_t wide, bool as_it_is = true)
        : C(C), H(H), W(W), D(D), k(k), s(s), p(p), r(k / s), rows((H + 2 * p - k) / s + 1), columns((W + 2 * p - k) / s + 1),
          m(r == 2 ? Winograd<2>::outputs : Winograd<3>::outputs), n(m + r - 1), down((rows + m - 1) / m),
          across((columns + m - 1) / m), bare(as_it_is && !p && (down * m + r - 1) * s <= H && (across * m + r - 1) * s <= W),
          below(s * line()), beside(s * C) {
        for (std::int64_t y = 0; y < down; y++)
            for (std::int64_t x = 0; x < across; x++) begins.push_back(m * (y * below + x * beside));
        for (std::int64_t y = 0; y < s; y++)
            for (std::int64_t i = 0; i < beside; i += wide) numbers.push_back(y * line() + i);
    }

    std::int64_t channels() const { return s * s * C; }
    std::int64_t tiles() const { return down * across; }
    std::int64_t points() const { return n * n; }
    std::int64_t input() const { return H * W * C; }
    std::int64_t output() const { return rows * columns * D; }
    std::int64_t height() const {
        return bare ? H : (down * m + r - 1) * s;
    }  // The size includes the border and the numbers that the last tiles read beyond the border.
    std::int64_t line() const { return (bare ? W : (across * m + r - 1) * s) * C; }
    std::int64_t bordered() const { return bare ? 0 : height() * line(); }
    std::int64_t weights() const { return channels() * D; }  // Each tap, or each point, has weights() weights.
    std::int64_t all_weights() const { return r * r * weights(); }
};

// Returns the picture itself if it needs no border, and otherwise a copy with a border in `scratch` [bordered()].
inline const float* with_border(const ConvF32& l, const float* picture, float* scratch) {
    if (l.bare) return picture;
    const std::int64_t high = std::min(l.H, l.height() - l.p), wide = std::min(l.W * l.C, l.line() - l.p * l.C);
    for (std::int64_t y = 0; y < high; y++)
        std::memcpy(scratch + (y + l.p) * l.line() + l.p * l.C, picture + y * l.W * l.C, size_t(wide) * sizeof(float));
    return scratch;
}

inline void without_border(const ConvF32& l, const float* bordered, float* picture) {
    const std::int64_t high = std::min(l.H, l.height() - l.p), wide = std::min(l.W * l.C, l.line() - l.p * l.C);
    if (high < l.H || wide < l.W * l.C) std::memset(picture, 0, size_t(l.input()) * sizeof(float));
    for (std::int64_t y = 0; y < high; y++)
        std::memcpy(picture + y * l.W * l.C, bordered + (y + l.p) * l.line() + l.p * l.C, size_t(wide) * sizeof(float));
}

}  // namespace accel
