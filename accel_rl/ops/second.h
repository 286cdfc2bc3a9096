#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace accel {

using i64 = std::int64_t;

// One more thread that takes a share of a batch. It looks out for work for a while after each, then sleeps; where it comes
// late, there is nothing left for it to do and nobody waits for it.
class Second {
public:
    ~Second() {
        if (!thread.joinable()) return;
        {
            std::lock_guard<std::mutex> hold(mutex);
            ends = true;
        }
        wakes.notify_one();
        thread.join();
    }

    // part(from, to) for all of [0, N), on both threads; on the caller's alone while it helps another one.
    void run(i64 N, const std::function<void(i64, i64)>& part) {
        std::unique_lock<std::mutex> mine(caller, std::try_to_lock);
        if (!mine) return part(0, N);
        if (!thread.joinable()) thread = std::thread([this] { serve(); });
        work = &part, end = N, next = 0;
        open = true;
        posted++;
        if (asleep) {
            std::lock_guard<std::mutex> hold(mutex);
            wakes.notify_one();
        }
        share();
        open = false;
        while (inside) continue;
    }

private:
    static constexpr i64 CHUNK = 4;
    static constexpr auto LOOK_OUT = std::chrono::microseconds(200);

    void share() {
        for (i64 i; (i = next.fetch_add(CHUNK)) < end;) (*work)(i, std::min(i + CHUNK, end));
    }

    void serve() {
        for (unsigned seen = 0;;) {
            const auto since = std::chrono::steady_clock::now();
            // no pause instruction: a virtual machine's host takes many of them for idling, and the core away
            while (posted == seen && std::chrono::steady_clock::now() - since < LOOK_OUT) continue;
            if (posted == seen) {
                std::unique_lock<std::mutex> hold(mutex);
                asleep = true;
                wakes.wait(hold, [&] { return posted != seen || ends; });
                asleep = false;
            }
            if (ends) return;
            seen = posted;
            inside = true;  // before it looks: whoever closes then either is seen here or sees us
            if (open) share();
            inside = false;
        }
    }

    std::thread thread;
    std::mutex caller, mutex;
    std::condition_variable wakes;
    std::atomic<unsigned> posted{0};
    std::atomic<bool> open{false}, inside{false}, asleep{false}, ends{false};
    std::atomic<i64> next{0};
    i64 end = 0;
    const std::function<void(i64, i64)>* work = nullptr;
};

}  // namespace accel
