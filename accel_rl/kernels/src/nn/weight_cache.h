// Weights are repacked into the layout of a layer's loops only when the weights have changed.
// A network acts many times with the same weights, and a target network keeps its weights for thousands of updates.
#pragma once
#include <cstring>
#include <functional>
#include <list>
#include <vector>

#include "../address.h"
#include "../lines.h"

namespace accel {

// The function make(numbers) repacks weight [n] into memory of the given number of floats.
// The packed weight is valid until the thread requests another weight.
// A weight is found by its address and shape, and compared with the packed numbers in a tenth of the repacking time.
inline const float* prepared(const Geometry& geometry, const float* weight, std::int64_t n, std::int64_t floats,
                             const std::function<void(float*)>& make) {
    struct Kept {
        Geometry geometry;
        const float* weight;
        std::vector<float> was;
        std::vector<Line> made;
    };
    thread_local std::list<Kept> all;
    auto it = all.begin();
    while (it != all.end() && !(it->weight == weight && it->geometry == geometry)) ++it;
    if (it == all.end()) {
        if (all.size() == 16) all.pop_back();  // The oldest entry may belong to a network that no longer exists.
        all.push_front({geometry, weight, {}, lines(floats)});
        it = all.begin();
    }
    const size_t bytes = size_t(n) * sizeof(float);
    if (it->was.empty() || std::memcmp(it->was.data(), weight, bytes)) {
        it->was.assign(weight, weight + n);
        make(it->made.data()->number);
    }
    return it->made.data()->number;
}

}  // namespace accel
