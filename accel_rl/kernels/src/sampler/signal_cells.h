// Between the server and a worker, as samplers/channel.py says it: a request is a number that only the server raises, an answer
// one that only the worker raises; equal, nothing is due. A bell (eventfd, or a pipe) is rung after every change.
#pragma once
#include <poll.h>
#include <unistd.h>

#include "../address.h"

namespace accel {

inline i64 seen(address cell) { return __atomic_load_n(at<const i64>(cell), __ATOMIC_ACQUIRE); }
inline void raise(address cell, i64 to) { __atomic_store_n(at<i64>(cell), to, __ATOMIC_RELEASE); }

inline void ring(int bell) {
    const i64 one = 1;
    [[maybe_unused]] const auto written = write(bell, &one, sizeof one);  // full: it is ringing already
}

// Sleeps until the bell rings, and silences it; false if `other` (below 0: nothing) has something to say.
inline bool heard(int bell, int other) {
    pollfd waits[2] = {{bell, POLLIN, 0}, {other, POLLIN, 0}};
    poll(waits, 2, -1);
    if (waits[1].revents) return false;
    char drained[64];
    if (waits[0].revents)
        while (read(bell, drained, sizeof drained) == sizeof drained) {}
    return true;
}

}  // namespace accel
