// Caches weights in the layout of a layer's loops, and repacks them only when they have changed.
// Networks act many times with the same weights, and the weights of a target network stay the same for thousands of
// updates.
#pragma once
#include <cstring>
#include <functional>
#include <list>
#include <vector>

#include "../address.h"
#include "../lines.h"

namespace accel {

// Returns a repacked weight. The function make(numbers) repacks weight [n] into memory for `floats` floats. The result
// is valid until the thread requests another weight. The cache is searched by the weight's address and geometry.
// Comparing a weight with its cached copy takes a tenth of the repacking time.
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
