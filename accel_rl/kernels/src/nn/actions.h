// Actions drawn from a network's outputs, and the element-wise operations between its layers.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "../address.h"

namespace accel {

// logits [N, A], uniform [N] in [0, 1) -> action [N] int64, log_prob [N]
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
        // by rounding, `passed` may stay below `end`; NaN draws the last action
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
        if (drawn < threshold) {  // one number decides both whether to explore and, stretched to [0, 1), which action to take
            chosen = std::min(std::int64_t(drawn / threshold * float(A)), A - 1);
        } else {
            const float* const row = at<const float>(q) + n * A;
            for (std::int64_t a = 1; a < A; a++)  // NaN counts as the highest
                if (row[a] > row[chosen] || (std::isnan(row[a]) && !std::isnan(row[chosen]))) chosen = a;
        }
        at<std::int64_t>(action)[n] = chosen;
    }
}

// max(x, 0) in place; x [n] float32
inline void relu(std::int64_t n, address x) {
    float* const all = at<float>(x);
    for (std::int64_t i = 0; i < n; i++) all[i] = all[i] < 0 ? 0 : all[i];
}

inline void copy(std::int64_t bytes, address from, address to) { std::memcpy(at<char>(to), at<const char>(from), size_t(bytes)); }

}  // namespace accel
