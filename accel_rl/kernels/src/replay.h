// Batches are drawn from a replay in host memory in one call each, instead of in many operations of torch.
// Values that a damaged file could contain never lead outside the arrays.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "address.h"
#include "threads.h"

namespace accel {

constexpr int TERMINATED = 1, ENDED = 2, SAMPLEABLE = 8;  // These are the bits of kernels/ring_arrays.py.

// The arrays of `RingArrays` in kernels/ring_arrays.py, with `bytes` per frame, and 1 or 2 bytes per action.
struct Ring {
    i64 size, B, stack, n, bytes, action_bytes;
    float gamma, clip;
    address frames, age, action, reward, flags, final;

    // Computes the position of a cell in the arrays.
    i64 place(i64 cell) const {
        const i64 rest = cell % size;
        return rest < 0 ? rest + size : rest;
    }

    bool can_sample(i64 place) const { return at<const std::uint8_t>(flags)[place] & SAMPLEABLE; }

    // Computes `cell` [N] from `uniform` [N] in [0, 1) as FrameRing.nth(uniform * drawable).
    // `before` has `rows` entries, or none if every cell can be drawn.
    void nth(i64 N, const double* uniform, i64 drawable, i64 first, const i64* before, i64 rows, i64* cell) const {
        for (i64 i = 0; i < N; i++) {
            i64 k = i64(uniform[i] * double(drawable)), start = first;
            if (rows) {
                const i64 row = std::upper_bound(before + 1, before + rows, k) - before - 1;
                k -= before[row], start += row * B;
                i64 b = 0;
                while (b < B && (k -= can_sample(place(start + b))) >= 0) b++;
                k = b;
            }
            cell[i] = start + k;
        }
    }

    // Gathers the transitions at `cell` [N] as `gather` in kernels/ring_arrays.py.
    // With `window`, obs_tm1 and obs_t are parts of the same array [N, stack + 1], whose frames are written once.
    void gather(i64 N, const i64* cell, const char* finals, i64 slots, bool window, char* obs_tm1, char* obs_t, float* r_t,
                float* discount_t, i64* action_tm1, int threads) const {
        const i64 stride = (stack + window) * bytes;
        std::atomic<bool> is_damaged{false};
        const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
            for (i64 i = from; i < to; i++) {
                const i64 first = place(cell[i]), last = returns(first, r_t[i], discount_t[i]);
                const i64 slot = at<const std::int32_t>(final)[last];
                action_tm1[i] = action_bytes == 1 ? i64(at<const std::uint8_t>(action)[first])
                                                  : i64(at<const std::int16_t>(action)[first]);
                for (i64 lag = stack - 1; lag >= 0; lag--)
                    put(obs_tm1 + i * stride, lag, first, at<const std::uint8_t>(age)[first]);
                for (i64 lag = stack - 1; lag >= 0 && !window; lag--)
                    put(obs_t + i * stride, lag, last + B, at<const std::uint8_t>(age)[last] + 1);
                if (slot >= slots) is_damaged = true;
                else if (slot >= 0 || window)
                    std::memcpy(obs_t + i * stride + (stack - 1) * bytes, slot < 0 ? frame(last + B) : finals + slot * bytes,
                                size_t(bytes));
            }
        };
        const bool is_small = size_t(N * 2 * stack * bytes) < ONE_THREAD_BYTES;
        // Each thread computes one part of a small batch, so that the thread's cache contains the same part of the next batch.
        share(N, is_small ? 1 : threads, part, std::clamp<i64>(N / std::max(threads, 1), 4, 32));
        if (is_damaged) throw std::out_of_range("the slot of a final frame does not exist");
    }

  private:
    // Computes the return and the discount of the transition at position `first`, and returns the position of its last step.
    i64 returns(i64 first, float& r_t, float& discount_t) const {
        i64 last = first;
        bool goes_on = true;
        for (i64 k = 0; k < n; k++) {
            const i64 step = place(first + k * B);
            const int flag = at<const std::uint8_t>(flags)[step];
            const float raw = at<const float>(reward)[step], more = gamma * float(!(flag & TERMINATED));
            // A reward of NaN stays NaN.
            const float value = clip != 0 && !std::isnan(raw) ? std::min(std::max(raw, -clip), clip) : raw;
            r_t = k == 0 ? value : r_t + (goes_on ? discount_t * value : 0);
            if (goes_on) last = step, discount_t = k == 0 ? more : discount_t * more;
            goes_on = goes_on && !(flag & (TERMINATED | ENDED));
        }
        return last;
    }

    const char* frame(i64 cell) const { return at<const char>(frames) + place(cell) * bytes; }

    // Copies the frame `lag` steps before a cell to its place in the stack `obs`, or zeros from before the episode.
    void put(char* obs, i64 lag, i64 cell, i64 age) const {
        char* const to = obs + (stack - 1 - lag) * bytes;
        if (lag <= age) std::memcpy(to, frame(cell - lag * B), size_t(bytes));
        else std::memset(to, 0, size_t(bytes));
    }
};

// The levels of a SumTree in replays/prioritized.py, the weights' level first, with FANOUT entries per sum.
struct Levels {
    static constexpr i64 FANOUT = 32;
    std::vector<address> entries;
    std::vector<i64> lengths;

    // Draws `cell` [N] by `uniform` [N] in [0, 1), and computes the probabilities [N], as Prioritized.draw.
    void draw(i64 N, const double* uniform, const Ring& ring, i64 newest, i64* cell, double* probability) const {
        const double total = with(entries.size() - 1, 0, [](const auto* weight) { return sum(weight); });
        double* const mass = probability;
        for (i64 i = 0; i < N; i++) mass[i] = (double(i) + uniform[i]) * (total / double(N)), cell[i] = 0;
        for (size_t k = entries.size(); k-- > 0;) {  // Level by level, the reads of several descents overlap.
            for (i64 i = 0; i < N; i++) {
                const i64 node = std::min(cell[i], lengths[k] / FANOUT - 1);
                cell[i] = node * FANOUT + with(k, node, [&](const auto* weight) { return child(weight, mass[i]); });
            }
        }
        for (i64 i = 0; i < N; i++) {
            probability[i] = double(at<const float>(entries[0])[cell[i]]) / total;
            cell[i] = newest - ring.place(newest - cell[i]);
        }
    }

    // Sets the weights [N] of `cell` [N], where cells [first, end) are in the replay, as Prioritized.update.
    void update(i64 N, const i64* cell, const float* weight, const Ring& ring, i64 first, i64 end, float& highest) const {
        const bool any = std::any_of(weight, weight + N, [](float w) { return std::isfinite(w); });
        std::vector<i64> nodes(static_cast<size_t>(N));
        for (i64 i = 0; i < N; i++) {
            const i64 place = nodes[size_t(i)] = ring.place(cell[i]);
            if (!any || cell[i] < first || cell[i] >= end || !ring.can_sample(place)) continue;
            const float w = std::isfinite(weight[i]) ? weight[i] : 0;
            at<float>(entries[0])[place] = w;
            highest = std::max(highest, w);
        }
        for (size_t k = 1; k < entries.size(); k++) {
            i64 previous = -1;
            for (i64& node : nodes) {
                node /= FANOUT;
                if (node != previous)
                    at<double>(entries[k])[node] = with(k - 1, node, [](const auto* below) { return sum(below); });
                previous = node;
            }
        }
    }

  private:
    // Calls f(the FANOUT entries of a node). Weights are float32, and sums are float64.
    template <class F>
    std::invoke_result_t<F, const float*> with(size_t level, i64 node, const F& f) const {
        return level ? f(at<const double>(entries[level]) + node * FANOUT) : f(at<const float>(entries[0]) + node * FANOUT);
    }

    template <class T>
    static double sum(const T* weight) {
        double sum = 0;
        for (i64 k = 0; k < FANOUT; k++) sum += double(weight[k]);
        return sum;
    }

    // Returns the first child whose cumulative sum exceeds `mass`, or the last child with a weight if rounding errors leave no
    // such child, and subtracts the sum of the children before it from `mass`.
    template <class T>
    static i64 child(const T* weight, double& mass) {
        double before = 0, passed = 0;
        i64 found = 0;
        for (i64 k = 0; k < FANOUT; k++) {
            const double sum = passed + double(weight[k]);
            if (weight[k] > 0) found = k, before = passed;
            if (weight[k] > 0 && sum > mass) break;
            passed = sum;
        }
        mass -= before;
        return found;
    }
};

}  // namespace accel
