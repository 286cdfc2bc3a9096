// Computes layer norms without gradients. The compiler vectorizes the loops.
#pragma once
#include <cmath>

#include "../address.h"
#include "../threads.h"

namespace accel {

constexpr float NORM_EPSILON = 1e-5f;  // The default of torch.nn.LayerNorm; kernels/activations.py has the same constant.
constexpr i64 PARTIAL_SUMS = 16;

// Returns the sum of term(k) over k < F. Terms with the same k modulo PARTIAL_SUMS are added first, and then these
// partial sums.
template <class Term>
inline float sum_over(i64 F, const Term& term) {
    float parts[PARTIAL_SUMS] = {};
    i64 k = 0;
    for (; k + PARTIAL_SUMS <= F; k += PARTIAL_SUMS)
        for (i64 p = 0; p < PARTIAL_SUMS; p++) parts[p] += term(k + p);
    for (i64 p = 0; k < F; k++, p++) parts[p] += term(k);
    float sum = 0;
    for (const float part : parts) sum += part;
    return sum;
}

// Computes out [N, F] from x [N, F], weight [F] and bias [F]. Each row is normalized to mean 0 and variance 1,
// multiplied by the weight, and added to the bias. Each output row is bitwise identical for any batch size and number
// of threads.
inline void layer_norm(i64 N, i64 F, address x, address weight, address bias, address out, int threads) {
    const float *const w = at<const float>(weight), *const b = at<const float>(bias);
    share(
        N, threads,
        [&](i64 from, i64 to) {
            for (i64 n = from; n < to; n++) {
                const float* const row = at<const float>(x) + n * F;
                float* const result = at<float>(out) + n * F;
                const float mean = sum_over(F, [row](i64 k) { return row[k]; }) / float(F);
                const float variance = sum_over(F, [row, mean](i64 k) { return (row[k] - mean) * (row[k] - mean); }) / float(F);
                const float scale = 1 / std::sqrt(variance + NORM_EPSILON);
                for (i64 k = 0; k < F; k++) result[k] = (row[k] - mean) * scale * w[k] + b[k];
            }
        },
        1);
}

}  // namespace accel
