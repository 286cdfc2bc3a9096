// Converts a convolution's weights between torch's order and the order of a layer's loops.
#pragma once
#include <algorithm>
#include <vector>

#include "../threads.h"

namespace accel {

// Converts a weight [D, C, k, k] to taps [r r][s s C][D], or to [r r][D][s s C] if `by_output`.
// In the layer's order, number i of output channel d's weights is at first[d] + then[i].
// The order of the s s C channels is [s, s, C], or [C, s, s] for `planes`.
struct WeightLayout {
    std::vector<i64> first, then;

    WeightLayout(i64 C, i64 D, i64 k, i64 s, bool planes, bool by_output) : first(size_t(D)), then(size_t(C * k * k)) {
        const i64 channels = s * s * C;
        for (i64 d = 0; d < D; d++) first[size_t(d)] = by_output ? d * channels : d;
        for (i64 c = 0; c < C; c++)
            for (i64 y = 0; y < k; y++)
                for (i64 x = 0; x < k; x++) {
                    const i64 tap = y / s * (k / s) + x / s, place = y % s * s + x % s;
                    const i64 channel = planes ? c * s * s + place : place * C + c;
                    then[size_t((c * k + y) * k + x)] = tap * channels * D + channel * (by_output ? 1 : D);
                }
    }
    void in_order(const float* weight, float* out) const {
        each([=](i64 place, i64 number) { out[place] = weight[number]; });
    }
    void as_they_were(const float* in, float* weight) const {
        each([=](i64 place, i64 number) { weight[number] = in[place]; });
    }

  private:
    // For all output channels, eight numbers are copied before the next eight, because neighbouring channels share
    // cache lines. Copying one channel after the other takes ten times as long: a first-level cache holds only twelve
    // lines whose addresses differ by multiples of a power of two.
    template <class Move>
    void each(Move move) const {
        const i64 D = i64(first.size()), all = i64(then.size());
        for (i64 line = 0; line < all; line += 8)
            for (i64 d = 0; d < D; d++)
                for (i64 i = line; i < std::min(line + 8, all); i++) move(first[size_t(d)] + then[size_t(i)], d * all + i);
    }
};

}  // namespace accel
