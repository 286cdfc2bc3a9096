// Actions drawn from categorical distributions: a few numbers a row, for which a dozen operations take their time. And the other
// small things that are done between a network's layers and around it.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "../address.h"

namespace accel {

// logits [N, A], uniform [N] in [0, 1) -> action [N] int64, log_prob [N]
inline void sample_categorical(std::int64_t N, std::int64_t A, address logits, address uniform, address action, address log_prob) {
    for (std::int64_t n = 0; n < N; n++) {
        const float* const row = at<const float>(logits) + n * A;
        const float most = *std::max_element(row, row + A);
        float sum = 0;
        for (std::int64_t a = 0; a < A; a++) sum += std::exp(row[a] - most);
        const float end = at<const float>(uniform)[n] * sum;
        float passed = 0;
        std::int64_t a = 0;
        // it may end just under the sum by rounding; what is not a number draws the last one
        for (; a < A - 1; a++)
            if ((passed += std::exp(row[a] - most)) > end) break;
        at<std::int64_t>(action)[n] = a;
        at<float>(log_prob)[n] = row[a] - most - std::log(sum);
    }
}

// q [N, A], uniform [N] in [0, 1), epsilon [N] or one number (step 0) -> action [N] int64
inline void epsilon_greedy(std::int64_t N, std::int64_t A, address q, address uniform, address epsilon, std::int64_t step,
                           address action) {
    for (std::int64_t n = 0; n < N; n++) {
        const float drawn = at<const float>(uniform)[n], threshold = at<const float>(epsilon)[n * step];
        std::int64_t chosen = 0;
        if (drawn < threshold) {  // the same number tells whether to explore and, stretched to [0, 1), where
            chosen = std::min(std::int64_t(drawn / threshold * float(A)), A - 1);
        } else {
            const float* const row = at<const float>(q) + n * A;
            for (std::int64_t a = 1; a < A; a++)  // what is not a number counts as the highest
                if (row[a] > row[chosen] || (std::isnan(row[a]) && !std::isnan(row[chosen]))) chosen = a;
        }
        at<std::int64_t>(action)[n] = chosen;
    }
}

// x [n] float32 -> where it is below zero: zero
inline void relu(std::int64_t n, address x) {
    float* const all = at<float>(x);
    for (std::int64_t i = 0; i < n; i++) all[i] = all[i] < 0 ? 0 : all[i];
}

inline void copy(std::int64_t bytes, address from, address to) { std::memcpy(at<char>(to), at<const char>(from), size_t(bytes)); }

}  // namespace accel
