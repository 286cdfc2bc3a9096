// Selects actions from a network's outputs, and computes ReLUs.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "../address.h"

namespace accel {

// Samples actions [N] int64 from the distributions given by logits [N, A], with random numbers uniform [N] in [0, 1).
// log_prob [N] are the actions' log probabilities.
inline void sample_categorical(std::int64_t N, std::int64_t A, address logits, address uniform, address action,
                               address log_prob) {
    for (std::int64_t n = 0; n < N; n++) {
        const float* const row = at<const float>(logits) + n * A;
        const float most = *std::max_element(row, row + A);
        float sum = 0;
        for (std::int64_t a = 0; a < A; a++) sum += std::exp(row[a] - most);
        const float end = at<const float>(uniform)[n] * sum;
        float passed = 0;
        std::int64_t a = 0;
        // If rounding leaves `passed` below `end`, or a logit is NaN, the last action is drawn.
        for (; a < A - 1; a++)
            if ((passed += std::exp(row[a] - most)) > end) break;
        at<std::int64_t>(action)[n] = a;
        at<float>(log_prob)[n] = row[a] - most - std::log(sum);
    }
}

// Returns the index of the largest of A numbers, or of the first NaN, which counts as the largest.
inline std::int64_t largest(std::int64_t A, const float* row) {
    std::int64_t chosen = 0;
    for (std::int64_t a = 1; a < A; a++)
        if (row[a] > row[chosen] || (std::isnan(row[a]) && !std::isnan(row[chosen]))) chosen = a;
    return chosen;
}

// Selects epsilon-greedy actions [N] int64, given q [N, A], random numbers uniform [N] in [0, 1), and epsilon: [N], or
// one number if `step` is 0.
inline void epsilon_greedy(std::int64_t N, std::int64_t A, address q, address uniform, address epsilon, std::int64_t step,
                           address action) {
    for (std::int64_t n = 0; n < N; n++) {
        const float drawn = at<const float>(uniform)[n], threshold = at<const float>(epsilon)[n * step];
        std::int64_t chosen = 0;
        // The same random number decides whether to explore and, divided by epsilon, which action to explore.
        if (drawn < threshold) {
            chosen = std::min(std::int64_t(drawn / threshold * float(A)), A - 1);
        } else {
            chosen = largest(A, at<const float>(q) + n * A);
        }
        at<std::int64_t>(action)[n] = chosen;
    }
}

// Computes value [N], the maximum of each row of q [N, A].
inline void largest_value(std::int64_t N, std::int64_t A, address q, address value) {
    for (std::int64_t n = 0; n < N; n++) {
        const float* const row = at<const float>(q) + n * A;
        at<float>(value)[n] = row[largest(A, row)];
    }
}

// Computes max(x, 0) in place for x [n] float32.
inline void relu(std::int64_t n, address x) {
    float* const all = at<float>(x);
    for (std::int64_t i = 0; i < n; i++) all[i] = all[i] < 0 ? 0 : all[i];
}

inline void copy(std::int64_t bytes, address from, address to) { std::memcpy(at<char>(to), at<const char>(from), size_t(bytes)); }

}  // namespace accel
