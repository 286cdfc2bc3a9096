// Drawing from a ring in host memory in one call: what ring.py, prioritized.py and sum_tree.py say in some hundred
// operations of torch, which take longer than moving the frames of a small batch.
//
//     draw     u [N] -> cells, weights      down the sums, 32 children at a time
//     gather   cells -> ReplayBatch         the memory's speed is the limit, so threads share it
//     update   cells, errors -> sums        up again
#pragma once
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "../address.h"
#include "../threads.h"

namespace accel {

namespace py = pybind11;

constexpr int TERMINATED = 1, ENDED = 2, SAMPLEABLE = 8;  // ring.py's bits
constexpr i64 FANOUT = 32;                                // sum_tree.py's

class HostRing {
public:
    HostRing(i64 L, i64 B, i64 stack, i64 n, i64 frame_bytes, i64 action_bytes, float gamma, float clip, address frames,
             address age, address action, address reward, address flags, address final)
        : L(L), B(B), S(stack), n(n), size(L * B), bytes(size_t(frame_bytes)), action_bytes(action_bytes), gamma(gamma),
          clip(clip), frames(at<const char>(frames)), age(at<const std::uint8_t>(age)), action(at<const char>(action)),
          reward(at<const float>(reward)), flags(at<const std::uint8_t>(flags)), final(at<const std::int32_t>(final)) {}

    // Whether a cell can be drawn, where rows [low, high) are whole.
    bool sampleable(i64 cell, i64 low, i64 high) const {
        return cell >= low * B && cell < high * B && (flags[cell % size] & SAMPLEABLE);
    }

    void sampleables(i64 N, address cells, i64 low, i64 high, address out) const {
        for (i64 i = 0; i < N; i++) at<bool>(out)[i] = sampleable(at<const i64>(cells)[i], low, high);
    }

    // cells [N] to obs_tm1, obs_t (or one window [N, S + 1] where n = 1 and S > 1), a_tm1, r_t, discount_t.
    void gather(i64 N, address cells_, address finals_, address obs_tm1, address obs_t, address a_, address r_, address d_,
                int threads) {
        py::gil_scoped_release nogil;
        const i64* cells = at<const i64>(cells_);
        const std::function<void(i64, i64)> part = [&](i64 from, i64 to) {
            for (i64 i = from; i < to; i++) {
                one(cells[i], i, at<const char>(finals_), at<char>(obs_tm1), at<char>(obs_t), at<i64>(a_), at<float>(r_),
                    at<float>(d_));
            }
        };
        const size_t moved = size_t(N) * bytes * size_t(windowed() ? S + 1 : 2 * S);
        // a small batch in as many parts as threads: each writes where it wrote the last batch, which its cache still holds
        const i64 chunk = std::clamp(N / std::max(threads, 1), i64(4), i64(32));
        share(N, moved < ALONE ? 1 : threads, part, chunk);
    }

    bool windowed() const { return n == 1 && S > 1; }

    const i64 L, B, S, n, size;

private:
    void one(i64 cell, i64 i, const char* finals, char* obs_tm1, char* obs_t, i64* a, float* r, float* d) const {
        i64 last = cell;
        float ret = 0, discount = 1;
        for (i64 k = 0; k < n; k++) {
            last = cell + k * B;
            const i64 p = last % size;
            float x = reward[p];
            if (clip > 0) x = std::isnan(x) ? x : std::min(std::max(x, -clip), clip);
            ret += k ? discount * x : x;
            const float more = flags[p] & TERMINATED ? 0.0f : gamma;
            discount = k ? discount * more : more;
            if (flags[p] & (TERMINATED | ENDED)) break;
        }
        r[i] = ret;
        d[i] = discount;
        const i64 here = cell % size, there = last % size;
        a[i] = action_bytes == 1 ? i64(reinterpret_cast<const std::uint8_t*>(action)[here])
                                 : i64(reinterpret_cast<const std::int16_t*>(action)[here]);
        const char* shown = final[there] >= 0 ? finals + size_t(final[there]) * bytes : frame(last + B);
        if (windowed()) {
            char* w = obs_tm1 + size_t(i) * size_t(S + 1) * bytes;
            stack(w, cell, age[here]);
            std::memcpy(w + size_t(S) * bytes, shown, bytes);
            return;
        }
        stack(obs_tm1 + size_t(i) * size_t(S) * bytes, cell, S == 1 ? 0 : age[here]);
        char* next = obs_t + size_t(i) * size_t(S) * bytes;
        for (i64 k = 0; k < S - 1; k++) {
            const i64 lag = S - 1 - k;
            put(next + size_t(k) * bytes, last + B - lag * B, lag <= i64(age[there]) + 1);
        }
        std::memcpy(next + size_t(S - 1) * bytes, shown, bytes);
    }

    // The observation at a cell: the newest frame last, zeros from before the episode.
    void stack(char* to, i64 cell, i64 age_) const {
        for (i64 k = 0; k < S; k++) put(to + size_t(k) * bytes, cell - (S - 1 - k) * B, S - 1 - k <= age_);
    }

    void put(char* to, i64 cell, bool seen) const {
        if (seen)
            std::memcpy(to, frame(cell), bytes);
        else
            std::memset(to, 0, bytes);
    }

    const char* frame(i64 cell) const { return frames + size_t((cell % size + size) % size) * bytes; }

    const size_t bytes;
    const i64 action_bytes;
    const float gamma, clip;
    const char* frames;
    const std::uint8_t* age;
    const char* action;
    const float* reward;
    const std::uint8_t* flags;
    const std::int32_t* final;
};

// sum_tree.py's levels: float32 weights, then float64 sums of 32 each; and prioritized.py's use of them.
class HostSums {
public:
    HostSums(const HostRing& ring, const std::vector<address>& levels) : ring(ring), weight(at<float>(levels.at(0))) {
        for (size_t k = 1; k < levels.size(); k++) sums.push_back(at<double>(levels[k]));
    }

    // u [N] in [0, 1) -> cells [N], weights in the loss [N]; `offered` transitions can be drawn, `newest` is the last cell.
    void draw(i64 N, address u_, i64 offered, i64 newest, double beta, address cells_, address weights_) const {
        const double* u = at<const double>(u_);
        i64* cells = at<i64>(cells_);
        float* weights = at<float>(weights_);
        const double total = sums.empty() ? sum(weight) : sum(sums.back());
        std::vector<double> mass(static_cast<size_t>(N)), w(mass.size());
        for (i64 i = 0; i < N; i++) mass[size_t(i)] = (double(i) + u[i]) * (total / double(N));
        find(mass, cells);
        double largest = 0;
        for (i64 i = 0; i < N; i++) {
            const i64 leaf = cells[i], behind = (newest - leaf) % ring.size;
            cells[i] = newest - (behind < 0 ? behind + ring.size : behind);
            w[size_t(i)] = std::pow(double(offered) * (double(weight[leaf]) / total), -beta);
            largest = std::max(largest, w[size_t(i)]);
        }
        for (i64 i = 0; i < N; i++) weights[i] = float(w[size_t(i)] / largest);
    }

    // New weights |error|^alpha of the cells that can still be drawn, and in `highest` the highest so far.
    void update(i64 N, address cells_, address errors_, i64 low, i64 high, float alpha, float epsilon, address highest_) {
        const i64* cells = at<const i64>(cells_);
        const float* errors = at<const float>(errors_);
        float& highest = *at<float>(highest_);
        const float before = highest;
        for (i64 i = 0; i < N; i++) {
            if (!ring.sampleable(cells[i], low, high)) continue;
            float w = std::pow(std::fabs(errors[i]) + epsilon, alpha);
            if (!std::isfinite(w)) w = before;  // an update that failed: look at it again
            highest = std::max(highest, w);
            weight[cells[i] % ring.size] = w;
        }
        std::vector<i64> nodes(static_cast<size_t>(N));  // overwritten ones, too: their sums do not change
        for (i64 i = 0; i < N; i++) nodes[size_t(i)] = cells[i] % ring.size;
        for (size_t k = 0; k < sums.size(); k++) {
            i64 done = -1;
            for (i64& node : nodes) {
                node /= FANOUT;
                if (node == done) continue;  // cells were drawn in their order: most of a node's follow one another
                sums[k][node] = k ? sum(sums[k - 1] + node * FANOUT) : sum(weight + node * FANOUT);
                done = node;
            }
        }
    }

private:
    template <class T>
    static double sum(const T* x) {
        double s = 0;
        for (i64 k = 0; k < FANOUT; k++) s += double(x[k]);
        return s;
    }

    // The child at which the running sum passes mass, from which what lies before it is taken; where rounding passes the
    // end, the last child with a weight.
    template <class T>
    static i64 child(const T* x, double& mass) {
        double before = 0, passed = 0;
        i64 found = 0;
        for (i64 k = 0; k < FANOUT; k++) {
            const double w = double(x[k]);
            if (w > 0) found = k, before = passed;
            passed += w;
            if (passed > mass) break;
        }
        mass -= before;
        return found;
    }

    // mass [N] -> the places [N] at which the running sum passes it. All go down a level before any goes on: what the
    // next level reads is on its way meanwhile.
    void find(std::vector<double>& mass, i64* nodes) const {
        std::fill_n(nodes, mass.size(), 0);
        for (size_t k = sums.size(); k-- > 0;) {
            for (size_t i = 0; i < mass.size(); i++) {
                nodes[i] = nodes[i] * FANOUT + child(sums[k] + nodes[i] * FANOUT, mass[i]);
                k ? fetch(sums[k - 1] + nodes[i] * FANOUT) : fetch(weight + nodes[i] * FANOUT);
            }
        }
        for (size_t i = 0; i < mass.size(); i++) {
            nodes[i] = nodes[i] * FANOUT + child(weight + nodes[i] * FANOUT, mass[i]);
        }
    }

    template <class T>
    static void fetch(const T* x) {
        for (i64 k = 0; k < FANOUT; k += 64 / i64(sizeof(T))) __builtin_prefetch(x + k);
    }

    const HostRing& ring;
    float* weight;
    std::vector<double*> sums;
};

}  // namespace accel
