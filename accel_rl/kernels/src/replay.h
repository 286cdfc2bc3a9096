// Draws a batch from a replay in host memory in one call, instead of by many operations of torch. Sizes are checked,
// and no value that a damaged file may contain leads to an access outside the arrays.
#pragma once
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>

#include "tensors.h"
#include "threads.h"

#pragma GCC visibility push(hidden)
namespace accel {

constexpr int TERMINATED = 1, ENDED = 2, SAMPLEABLE = 8;  // The bits of `RingArrays.flags` (kernels/ring_arrays.py)

// The arrays of `RingArrays` in kernels/ring_arrays.py, except for `finals`.
class HostRing {
  public:
    HostRing(Input<char> frames, Input<std::uint8_t> age, Input<char> action, Input<float> reward, Input<std::uint8_t> flags,
             Input<std::int32_t> final, i64 B, i64 stack, i64 n, float gamma, float clip)
        : size(flags.n), frames(frames), action(action), age(age), flags(flags), reward(reward), final(final), B(B), stack(stack),
          n(n), bytes(frames.each), gamma(gamma), clip(clip) {
        const auto [least, most] = std::minmax({size, frames.n, action.n, age.n, reward.n, final.n});
        if (least != most || std::min({size, B, stack, n, bytes}) < 1 || size % B || action.each > 2)
            throw std::invalid_argument("the arrays of the replay's ring have other sizes");
    }

    // Returns the index of a cell in the arrays.
    i64 place(i64 cell) const {
        const i64 rest = cell % size;
        return rest < 0 ? rest + size : rest;
    }

    bool can_sample(i64 place) const { return flags.data[place] & SAMPLEABLE; }

    // Draws cells [N] uniformly, given uniform [N] in [0, 1), and returns them with weights of 1. A random number u selects
    // the same cell as FrameRing.nth(int(u * drawable)), where `drawable` cells can be drawn. `before` is needed if not every cell can be drawn.
    py::tuple nth(const Input<double>& uniform, i64 drawable, i64 first, const std::optional<Input<i64>>& before) const {
        const Output<i64> cell(uniform.n);
        const Output<float> weight(uniform.n);
        for (i64 i = 0; i < uniform.n; i++) {
            i64 k = i64(uniform.data[i] * double(drawable)), start = first;
            if (before) {
                const i64* const row = std::upper_bound(before->data + 1, before->data + before->n, k) - 1;
                k -= *row, start += (row - before->data) * B;
                i64 b = 0;
                while (b < B && (k -= can_sample(place(start + b))) >= 0) b++;
                k = b;
            }
            cell.data()[i] = start + k, weight.data()[i] = 1;
        }
        return py::make_tuple(cell.tensor(), weight.tensor());
    }

    // Gathers the transitions that begin at cells [N], as `gather` in kernels/ring_arrays.py does.
    py::tuple gather(const Input<char>& finals, const Input<i64>& cell, int threads) const {
        if (finals.each != bytes) throw std::invalid_argument("the replay's final frames have another size");
        const bool window = stack > 1 && n == 1;  // Both observations are parts of one array [N, stack + 1].
        const i64 N = cell.n, stride = (stack + window) * bytes, next = window ? bytes : N * stride;
        const Output<char> obs(N * stride * (window ? 1 : 2));
        const Output<float> r_t(N), discount_t(N);
        const Output<i64> a_tm1(N);
        std::atomic<bool> is_damaged{false};
        const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
            for (i64 i = from; i < to; i++) {
                const i64 first = place(cell.data[i]), last = returns(first, r_t.data()[i], discount_t.data()[i]);
                a_tm1.data()[i] = action.each == 1 ? i64(reinterpret_cast<const std::uint8_t*>(action.data)[first])
                                                   : i64(reinterpret_cast<const std::int16_t*>(action.data)[first]);
                char *const before = obs.data() + i * stride, *const after = before + next;
                // While a frame is copied, the same frame of the next transition is prefetched.
                const i64 soon = i + 1 < to ? place(cell.data[i + 1]) : -1;
                for (i64 lag = stack - 1; lag >= 0; lag--) {
                    if (soon >= 0) fetch(soon - lag * B);
                    put(before, lag, first, age.data[first]);
                }
                for (i64 lag = window ? 0 : stack - 1; lag >= 0; lag--) {
                    if (soon >= 0) fetch(soon + (n - lag) * B);
                    put(after, lag, last + B, age.data[last] + 1);
                }
                if (final.data[last] >= finals.n) is_damaged = true;
                else if (final.data[last] >= 0)
                    std::memcpy(after + (stack - 1) * bytes, finals.data + final.data[last] * bytes, size_t(bytes));
            }
        };
        {
            py::gil_scoped_release no_gil;
            const bool is_small = size_t(2 * N * stride) < ONE_THREAD_BYTES;
            // Of a small batch, each thread gathers one part, so that the same part of the next batch is written to the
            // same thread's cache.
            share(N, is_small ? 1 : threads, part, std::clamp<i64>(N / std::max(threads, 1), 4, 32));
        }
        if (is_damaged) throw std::out_of_range("the replay has no such slot of a final frame");
        std::vector<i64> shape{N};
        if (stack > 1) shape.push_back(stack);
        shape.insert(shape.end(), frames.t->shape + 1, frames.t->shape + frames.t->ndim);
        const DLType type = frames.t->type;
        const i64 elements = stride * 8 / type.bits;
        return py::make_tuple(obs.tensor(0, type, shape, elements), obs.tensor(next, type, shape, elements), r_t.tensor(),
                              discount_t.tensor(), a_tm1.tensor());
    }

    const i64 size;

  private:
    // Computes the return and the discount of the transition that begins at index `first`, and returns the index of its
    // last step.
    i64 returns(i64 first, float& r_t, float& discount_t) const {
        i64 last = first;
        bool goes_on = true;
        for (i64 k = 0; k < n; k++) {
            const i64 step = place(first + k * B);
            const float raw = reward.data[step], more = gamma * float(!(flags.data[step] & TERMINATED));
            // If the reward is NaN, so is the clipped reward.
            const float value = clip != 0 && !std::isnan(raw) ? std::min(std::max(raw, -clip), clip) : raw;
            r_t = k == 0 ? value : r_t + (goes_on ? discount_t * value : 0);
            if (goes_on) last = step, discount_t = k == 0 ? more : discount_t * more;
            goes_on = goes_on && !(flags.data[step] & (TERMINATED | ENDED));
        }
        return last;
    }

    // Prefetches the frame of a cell into the second-level cache. Prefetching into the first level was slower than no
    // prefetch.
    void fetch(i64 cell) const {
        const char* const frame = frames.data + place(cell) * bytes;
        for (i64 k = 0; k < bytes; k += 64) __builtin_prefetch(frame + k, 0, 2);
    }

    // Copies the frame `lag` steps before a cell to its place in the stack `obs`, or writes zeros if it is from before
    // the episode.
    void put(char* obs, i64 lag, i64 cell, i64 age) const {
        char* const to = obs + (stack - 1 - lag) * bytes;
        if (lag <= age) std::memcpy(to, frames.data + place(cell - lag * B) * bytes, size_t(bytes));
        else std::memset(to, 0, size_t(bytes));
    }

    const Input<char> frames, action;
    const Input<std::uint8_t> age, flags;
    const Input<float> reward;
    const Input<std::int32_t> final;
    const i64 B, stack, n, bytes;
    const float gamma, clip;
};

// The levels of a SumTree (replays/prioritized.py), of which the first contains the weights. Each entry of a higher
// level is the sum of FANOUT entries of the level below.
class HostTree {
  public:
    HostTree(const Input<float>& weight, const std::vector<Input<double>>& sums) : weight(weight), sums(sums) {
        i64 n = weight.n;
        bool fits = n && n % FANOUT == 0;
        for (const Input<double>& level : sums)
            fits = fits && level.n == (n / FANOUT + FANOUT - 1) / FANOUT * FANOUT, n = level.n;
        if (!fits || n != FANOUT) throw std::invalid_argument("the levels of the replay's sum tree have other sizes");
    }

    // Draws cells [N] given random numbers uniform [N] in [0, 1), and computes their probabilities, as Prioritized.draw
    // does.
    py::tuple draw(const Input<double>& uniform, const HostRing& ring, i64 newest) const {
        const i64 N = uniform.n;
        const Output<i64> cell(N);
        const Output<double> probability(N);
        double* const mass = probability.data();
        const double total = sums.empty() ? sum(weight.data) : sum(sums.back().data);
        for (i64 i = 0; i < N; i++) {
            mass[i] = (double(i) + uniform.data[i]) * (total / double(N));
            i64 node = 0;
            for (size_t k = sums.size(); k-- > 0;) node = child(sums[k], node, mass[i]);
            node = child(weight, node, mass[i]);
            mass[i] = double(weight.data[node]) / total;
            cell.data()[i] = newest - ring.place(newest - node);
        }
        return py::make_tuple(cell.tensor(), probability.tensor());
    }

    // Returns weights [N] as float32, divided by the largest weight.
    static py::object normalise(const Input<double>& w) {
        const Output<float> out(w.n);
        const double largest = w.n ? *std::max_element(w.data, w.data + w.n) : 1;
        std::transform(w.data, w.data + w.n, out.data(), [=](double x) { return float(x / largest); });
        return out.tensor();
    }

    // Sets the weights of cells [N] to w [N], and raises `highest` to the largest w, as Prioritized.update does. The
    // replay contains the cells [first, end).
    void update(const Input<i64>& cell, const Input<float>& w, const HostRing& ring, i64 first, i64 end,
                const Input<float>& highest) {
        if (w.n != cell.n || ring.size > weight.n || !highest.n) throw std::invalid_argument("the replay expects other lengths");
        const bool any = std::any_of(w.data, w.data + w.n, [](float x) { return std::isfinite(x); });
        std::vector<i64> nodes;
        for (i64 i = 0; i < cell.n; i++) {
            const i64 place = ring.place(cell.data[i]);
            nodes.push_back(place);
            if (!any || cell.data[i] < first || cell.data[i] >= end || !ring.can_sample(place)) continue;
            weight.data[place] = std::isfinite(w.data[i]) ? w.data[i] : 0;
            *highest.data = std::max(*highest.data, weight.data[place]);
        }
        for (size_t k = 0; k < sums.size(); k++) {
            i64 previous = -1;
            for (i64& node : nodes) {
                node /= FANOUT;
                if (node != previous)
                    sums[k].data[node] = k ? sum(sums[k - 1].data + node * FANOUT) : sum(weight.data + node * FANOUT);
                previous = node;
            }
        }
    }

  private:
    static constexpr i64 FANOUT = 32;

    template <class T>
    static double sum(const T* entry) {
        double sum = 0;
        for (i64 k = 0; k < FANOUT; k++) sum += double(entry[k]);
        return sum;
    }

    // Returns the first child whose cumulative sum exceeds `mass`, and subtracts the sum of the children before it from
    // `mass`. If rounding errors leave no child with a cumulative sum above `mass`, returns the last child whose weight
    // is not 0.
    template <class T>
    static i64 child(const Input<T>& level, i64 node, double& mass) {
        node = std::min(node, level.n / FANOUT - 1) * FANOUT;
        double before = 0, passed = 0;
        i64 found = 0;
        for (i64 k = 0; k < FANOUT; k++) {
            const double entry = double(level.data[node + k]);
            if (entry > 0) found = k, before = passed;
            passed += entry;
            if (entry > 0 && passed > mass) break;
        }
        mass -= before;
        return node + found;
    }

    const Input<float> weight;
    const std::vector<Input<double>> sums;
};

}  // namespace accel
#pragma GCC visibility pop
