// Actions drawn from categorical distributions: a few numbers a row, for which a dozen operations take their time.
#pragma once
#include <algorithm>
#include <cmath>

#include "address.h"

namespace accel {

// logits [N, A], uniform [N] in [0, 1) -> action [N] int64, log_prob [N]
inline void choose(std::int64_t N, std::int64_t A, address logits, address uniform, address action, address log_prob) {
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

}  // namespace accel
