// Steps of one group of environments in a row: wait for its workers, make recorded calls, ask the workers for the next.
#pragma once
#include <mutex>
#include <tuple>
#include <vector>

#include "../call_graph.h"
#include "signal_cells.h"

namespace accel {

// Closed while somebody is asked, and while those who take part change.
class Gate {
public:
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

private:
    std::mutex mutex_;
};

// To a worker: addresses of its request, its answer and its slot for the group, and its bell.
using Wire = std::tuple<address, address, address, int>;

inline bool answered(const std::vector<Wire>& wires) {
    for (const auto& [request, answer, slot, bell] : wires)
        if (seen(answer) < seen(request)) return false;
    return true;
}

// Steps [t, T), of which slot + t is step t's; each once all have answered what was asked before. Returns the first that was
// not taken: T, or less where `changes`, which whoever changes anything else raises before he rings, is no longer `as_of`.
inline i64 rounds(CallGraph& calls, Gate& gate, const std::vector<Wire>& wires, int bell, address changes, i64 as_of, i64 t, i64 T, i64 first) {
    for (; t < T; t++) {
        while (!answered(wires)) {
            if (seen(changes) != as_of) return t;
            heard(bell, -1);
        }
        calls.run(t);
        const std::lock_guard<Gate> closed(gate);
        if (seen(changes) != as_of) return t;  // it is taken again, with the same numbers
        for (const auto& [request, answer, slot, worker_bell] : wires) {
            const i64 asked = seen(request);
            at<i64>(slot)[1] = asked;  // before the request: who sees this one raised rings at the last one all the same
            at<i64>(slot)[0] = first + t - asked;  // the answers so far are as many
            raise(request, asked + 1);
            ring(worker_bell);
        }
    }
    return T;
}

}  // namespace accel
