// Weights as a layer's loops take them, made again only where they have changed: a network acts many times by the same, and a
// target network stays for thousands of updates.
#pragma once
#include <cstring>
#include <functional>
#include <list>
#include <vector>

#include "../address.h"
#include "../lines.h"

namespace accel {

// make(numbers): of weight [n], so many floats' room. The caller's until this thread asks for another's; where and of which
// shape it lies says whose it is, and its numbers whether it is still the same, which takes a tenth of the making.
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
        if (all.size() == 16) all.pop_back();  // of networks that are no more
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
