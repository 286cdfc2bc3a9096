// Batches are drawn from a replay in host memory in one call each, instead of in many operations of torch.
// kernels/host_replay.py checks all sizes. Values that a damaged file could contain never lead outside the arrays.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "address.h"
#include "threads.h"

namespace accel {

constexpr int TERMINATED = 1, ENDED = 2, SAMPLEABLE = 8;  // These are the bits of kernels/ring_arrays.py.

// The arrays of `RingArrays` in kernels/ring_arrays.py.
class HostRing {
  public:
    // `sizes` are size, B, stack, n, and the bytes of a frame and of an action.
    // `arrays` are frames, age, action, reward, flags and final.
    HostRing(std::array<i64, 6> sizes, std::array<address, 6> arrays, float gamma, float clip)
        : size(sizes[0]), B(sizes[1]), stack(sizes[2]), n(sizes[3]), bytes(sizes[4]), action_bytes(sizes[5]), gamma(gamma),
          clip(clip), frames(at<const char>(arrays[0])), age(at<const std::uint8_t>(arrays[1])), action(arrays[2]),
          reward(at<const float>(arrays[3])), flags(at<const std::uint8_t>(arrays[4])),
          final(at<const std::int32_t>(arrays[5])) {}

    // Computes the position of a cell in the arrays.
    i64 place(i64 cell) const {
        const i64 rest = cell % size;
        return rest < 0 ? rest + size : rest;
    }

    bool can_sample(i64 place) const { return flags[place] & SAMPLEABLE; }

    // Computes `cells` [N] from `uniform` [N] in [0, 1) as FrameRing.nth(uniform * drawable).
    // `before` has L + 1 entries, or is null if every cell can be drawn.
    void nth(i64 N, address uniform, i64 drawable, i64 first, address before, address cells) const {
        const i64 *const rows = at<const i64>(before), L = size / B;
        for (i64 i = 0; i < N; i++) {
            i64 k = i64(at<const double>(uniform)[i] * double(drawable)), start = first;
            if (rows) {
                const i64 row = std::upper_bound(rows, rows + L + 1, k) - rows - 1;
                k -= rows[std::max<i64>(row, 0)], start += row * B;
                i64 b = 0;
                while (b < B && (k -= can_sample(place(start + b))) >= 0) b++;
                k = b;
            }
            at<i64>(cells)[i] = start + k;
        }
    }

    // Gathers the transitions at cells [N] as `gather` in kernels/ring_arrays.py.
    // obs_tm1 and obs_t are `stride` bytes from one transition to the next.
    // If obs_t begins one frame after obs_tm1, their common frames are written once.
    void gather(i64 N, address cells, address finals, i64 slots, address obs_tm1, address obs_t, i64 stride, address action,
                address r_t, address discount_t, int threads) const {
        std::atomic<bool> is_damaged{false};
        const bool overlap = stack > 1 && obs_t == obs_tm1 + address(bytes);
        const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
            for (i64 i = from; i < to; i++) {
                const i64 first = place(at<const i64>(cells)[i]), last = returns(first, at<float>(r_t)[i], at<float>(discount_t)[i]);
                at<i64>(action)[i] = action_bytes == 1 ? i64(at<const std::uint8_t>(this->action)[first])
                                                       : i64(at<const std::int16_t>(this->action)[first]);
                char *const before = at<char>(obs_tm1) + i * stride, *const after = at<char>(obs_t) + i * stride;
                for (i64 lag = stack - 1; lag >= 0; lag--) put(before, lag, first, age[first]);
                for (i64 lag = overlap ? 0 : stack - 1; lag > 0; lag--) put(after, lag, last + B, age[last] + 1);
                if (final[last] < slots) {
                    const char* const ended = at<const char>(finals) + std::max(final[last], 0) * bytes;
                    std::memcpy(after + (stack - 1) * bytes, final[last] < 0 ? frame(last + B) : ended, size_t(bytes));
                } else {
                    is_damaged = true;
                }
            }
        };
        const bool is_small = size_t(N * 2 * stack * bytes) < ONE_THREAD_BYTES;
        // Each thread computes one part of a small batch, so that the thread's cache contains the same part of the next batch.
        share(N, is_small ? 1 : threads, part, std::clamp<i64>(N / std::max(threads, 1), 4, 32));
        if (is_damaged) throw std::out_of_range("the slot of a final frame does not exist");
    }

    const i64 size, B, stack, n, bytes, action_bytes;

  private:
    // Computes the return and the discount of the transition at position `first`, and returns the position of its last step.
    i64 returns(i64 first, float& r_t, float& discount_t) const {
        i64 last = first;
        bool goes_on = true;
        for (i64 k = 0; k < n; k++) {
            const i64 step = place(first + k * B);
            const float raw = reward[step], more = gamma * float(!(flags[step] & TERMINATED));
            // A reward of NaN stays NaN.
            const float value = clip != 0 && !std::isnan(raw) ? std::min(std::max(raw, -clip), clip) : raw;
            r_t = k == 0 ? value : r_t + (goes_on ? discount_t * value : 0);
            if (goes_on) last = step, discount_t = k == 0 ? more : discount_t * more;
            goes_on = goes_on && !(flags[step] & (TERMINATED | ENDED));
        }
        return last;
    }

    const char* frame(i64 cell) const { return frames + place(cell) * bytes; }

    // Copies the frame `lag` steps before a cell to its place in the stack `obs`, or zeros from before the episode.
    void put(char* obs, i64 lag, i64 cell, i64 age) const {
        char* const to = obs + (stack - 1 - lag) * bytes;
        if (lag <= age) std::memcpy(to, frame(cell - lag * B), size_t(bytes));
        else std::memset(to, 0, size_t(bytes));
    }

    const float gamma, clip;
    const char* frames;
    const std::uint8_t* age;
    const address action;
    const float* reward;
    const std::uint8_t* flags;
    const std::int32_t* final;
};

// The sum tree of replays/prioritized.py with FANOUT entries per sum.
class HostTree {
  public:
    static constexpr i64 FANOUT = 32;

    // The levels' addresses, the weights' level first, and the levels' lengths, which are multiples of FANOUT.
    HostTree(const std::vector<address>& levels, const std::vector<i64>& lengths) : levels(levels), lengths(lengths) {}

    // Draws cells [N] by `uniform` [N] in [0, 1), and computes their probabilities [N], as Prioritized.draw.
    void draw(i64 N, address uniform, double total, const HostRing& ring, i64 newest, address cells, address probability) const {
        i64* const nodes = at<i64>(cells);
        std::vector<double> mass(static_cast<size_t>(N));
        for (i64 i = 0; i < N; i++) {
            mass[size_t(i)] = (double(i) + at<const double>(uniform)[i]) * (total / double(N));
            nodes[i] = 0;
        }
        for (size_t k = levels.size(); k-- > 0;) {  // Level by level, the reads of several descents overlap.
            for (i64 i = 0; i < N; i++) {
                nodes[i] = std::min(nodes[i], lengths[k] / FANOUT - 1) * FANOUT;
                nodes[i] += k ? child(at<const double>(levels[k]) + nodes[i], mass[size_t(i)])
                              : child(at<const float>(levels[k]) + nodes[i], mass[size_t(i)]);
            }
        }
        for (i64 i = 0; i < N; i++) {
            at<double>(probability)[i] = double(at<const float>(levels[0])[nodes[i]]) / total;
            nodes[i] = newest - ring.place(newest - nodes[i]);
        }
    }

    // Sets the weights [N] of cells [N], where cells [first, end) are in the replay, as Prioritized.update.
    void update(i64 N, address cells, address weight, const HostRing& ring, i64 first, i64 end, address highest) const {
        const i64* const cell = at<const i64>(cells);
        const float* const all = at<const float>(weight);
        const bool any = std::any_of(all, all + N, [](float w) { return std::isfinite(w); });
        std::vector<i64> nodes(static_cast<size_t>(N));
        for (i64 i = 0; i < N; i++) {
            const i64 place = nodes[size_t(i)] = ring.place(cell[i]);
            if (!any || cell[i] < first || cell[i] >= end || !ring.can_sample(place)) continue;
            at<float>(levels[0])[place] = std::isfinite(all[i]) ? all[i] : 0;
            *at<float>(highest) = std::max(*at<float>(highest), at<float>(levels[0])[place]);
        }
        for (size_t k = 1; k < levels.size(); k++) {
            i64 previous = -1;
            for (i64& node : nodes) {
                node /= FANOUT;
                if (node != previous)
                    at<double>(levels[k])[node] = k == 1 ? sum(at<const float>(levels[0]) + node * FANOUT)
                                                         : sum(at<const double>(levels[k - 1]) + node * FANOUT);
                previous = node;
            }
        }
    }

  private:
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

    const std::vector<address> levels;
    const std::vector<i64> lengths;
};

}  // namespace accel
