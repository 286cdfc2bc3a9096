#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace accel {

using i64 = std::int64_t;

// More threads that take shares of a batch. They look out for work for a while after each, then sleep; where one comes
// late, there is nothing left for it to do and nobody waits for it.
class Crew {
public:
    ~Crew() {
        {
            std::lock_guard<std::mutex> hold(mutex);
            ends = true;
        }
        wakes.notify_all();
        for (std::thread& one : helpers) one.join();
    }

    // part(from, to) for all of [0, N), `chunk` at a time, by up to `threads` threads; by the caller's alone while they
    // help another one.
    void run(i64 N, int threads, const std::function<void(i64, i64)>& part, i64 chunk = 4) {
        const i64 useful = std::min(i64(threads), (N + chunk - 1) / chunk) - 1;
        std::unique_lock<std::mutex> mine(caller, std::try_to_lock);
        if (useful < 1 || !mine) return part(0, N);
        while (i64(helpers.size()) < useful) helpers.emplace_back([this, seen = posted.load()] { serve(seen); });
        work = &part, end = N, step = chunk, next = 0, seats = useful;
        open = true;
        posted++;
        if (asleep) {
            std::lock_guard<std::mutex> hold(mutex);
            wakes.notify_all();
        }
        share();
        open = false;
        while (inside) continue;
    }

private:
    static constexpr auto LOOK_OUT = std::chrono::microseconds(200);

    void share() {
        for (i64 i; (i = next.fetch_add(step)) < end;) (*work)(i, std::min(i + step, end));
    }

    void serve(unsigned seen) {
        for (;;) {
            const auto since = std::chrono::steady_clock::now();
            // no pause instruction: a virtual machine's host takes many of them for idling, and the core away
            while (posted == seen && std::chrono::steady_clock::now() - since < LOOK_OUT) continue;
            if (posted == seen) {
                std::unique_lock<std::mutex> hold(mutex);
                asleep++;
                wakes.wait(hold, [&] { return posted != seen || ends; });
                asleep--;
            }
            if (ends) return;
            seen = posted;
            inside++;  // before it looks: whoever closes then either is seen here or sees us
            if (open && seats.fetch_sub(1) > 0) share();
            inside--;
        }
    }

    std::vector<std::thread> helpers;
    std::mutex caller, mutex;
    std::condition_variable wakes;
    std::atomic<unsigned> posted{0};
    std::atomic<bool> open{false}, ends{false};
    std::atomic<int> inside{0}, asleep{0};
    std::atomic<i64> next{0}, seats{0};
    i64 end = 0, step = 1;
    const std::function<void(i64, i64)>* work = nullptr;
};

}  // namespace accel
