// The players of a vector environment over a pool of threads.
//
//     caller     send(which, tasks) -> queue ........................ recv: the first `batch_size` that are done, in order
//     threads                          queue -> player -> done         of arrival; of all players, in their own order
//
// Where all players make one batch, each writes its stack straight into the batch's array; else recv copies it there.
#pragma once
#include <pthread.h>
#include <sched.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <thread>

#include "player.h"

namespace accel {

struct Task {
    u32 player;
    i32 action;      // below 0: a reset
    long long seed;  // of the reset; below 0: none
    u8* to;          // where the stack goes; null: recv copies it
};

class Vector {
  public:
    // cores: what each thread is pinned to; below 0: nothing.
    Vector(const std::vector<AtariEnvCore*>& agents, const PlayerRules& rules, u32 batch_size, const std::vector<int>& cores)
        : batch_size_(batch_size) {
        for (AtariEnvCore* agent : agents) players_.push_back(std::make_unique<Player>(*agent, rules));
        for (int core : cores) {
            threads_.emplace_back([this] { work(); });
            if (core < 0) continue;
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(core, &set);
            pthread_setaffinity_np(threads_.back().native_handle(), sizeof set, &set);
        }
    }
    ~Vector() { stop(); }

    // What is queued is left undone.
    void stop() {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            stopped_ = true;
            queue_.clear();
        }
        wake_.notify_all();
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

    size_t size() const { return players_.size(); }
    bool whole() const { return batch_size_ == players_.size(); }
    Player& player(u32 i) { return *players_[i]; }
    u32 batch_size() const { return batch_size_; }

    void send(const std::vector<Task>& tasks) {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            queue_.insert(queue_.end(), tasks.begin(), tasks.end());
            busy_ += tasks.size();
        }
        if (tasks.size() == 1) wake_.notify_one();
        else wake_.notify_all();
    }

    // A batch of players; where all make one, in their own order, whether or not they had anything to do.
    std::vector<u32> recv() {
        std::unique_lock<std::mutex> guard(lock_);
        const size_t wanted = whole() ? busy_ + done_.size() : batch_size_;
        arrived_.wait(guard, [&] { return error_ || done_.size() >= wanted; });
        if (error_) {
            const std::exception_ptr error = error_;
            error_ = nullptr;
            std::rethrow_exception(error);
        }
        std::vector<u32> batch(done_.begin(), done_.begin() + std::ptrdiff_t(wanted));
        done_.erase(done_.begin(), done_.begin() + std::ptrdiff_t(wanted));
        if (whole()) {
            batch.resize(players_.size());
            for (u32 i = 0; i < batch.size(); i++) batch[i] = i;
        }
        return batch;
    }

    // Waits for all that was sent and forgets it.
    void drain() {
        std::unique_lock<std::mutex> guard(lock_);
        arrived_.wait(guard, [&] { return busy_ == 0; });
        done_.clear();
        error_ = nullptr;
    }

  private:
    void work() {
        std::unique_lock<std::mutex> guard(lock_);
        for (;;) {
            wake_.wait(guard, [&] { return stopped_ || !queue_.empty(); });
            if (stopped_) return;
            const Task task = queue_.front();
            queue_.pop_front();
            guard.unlock();
            std::exception_ptr error;
            try {
                play(task);
            } catch (...) {
                error = std::current_exception();
            }
            guard.lock();
            if (error) error_ = error;
            busy_--;
            done_.push_back(task.player);
            if (!busy_ || error || (!whole() && done_.size() >= batch_size_)) arrived_.notify_all();
        }
    }

    void play(const Task& task) {
        Player& player = *players_[task.player];
        if (task.action < 0) player.reset(task.seed);
        else player.step(u32(task.action));
        if (task.to) player.write(task.to);
    }

    const u32 batch_size_;
    std::vector<std::unique_ptr<Player>> players_;
    std::vector<std::thread> threads_;
    std::mutex lock_;
    std::condition_variable wake_, arrived_;
    std::deque<Task> queue_;
    std::deque<u32> done_;
    size_t busy_ = 0;
    std::exception_ptr error_;
    bool stopped_ = false;
};

}  // namespace accel
