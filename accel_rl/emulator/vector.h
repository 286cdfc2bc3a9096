// A vector environment steps its environments by a pool of threads.
// | caller     send(which, tasks) -> queue ........................ recv: the first `batch_size` finished, in order
// | threads                          queue -> env -> done         of arrival; of all environments, in their own order
//
// If a batch contains all environments, each environment writes its stack directly into the batch's array.
// For smaller batches, recv copies each stack into the batch's array.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "stacked_env.h"

namespace accel {

struct Task {
    u32 env;
    i32 action;      // A negative action resets the environment.
    long long seed;  // A reset has the seed `seed`; a negative number means no seed.
    u8* to;          // The environment writes its stack to `to`; if null, recv copies the stack.
};

class Vector {
  public:
    // A new Vector has no threads, see add_thread.
    Vector(const std::vector<AtariEnvCore*>& env_cores, const StackedEnvRules& rules, u32 batch_size) : batch_size_(batch_size) {
        for (AtariEnvCore* core : env_cores) envs_.push_back(std::make_unique<StackedEnv>(*core, rules));
    }
    ~Vector() { stop(); }

    // On Linux a new thread inherits the cores of the calling thread, which lets a caller pin the new thread.
    void add_thread() {
        threads_.emplace_back([this] { work(); });
    }

    // Stops the threads, and drops queued tasks.
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

    size_t size() const { return envs_.size(); }
    bool whole() const { return batch_size_ == envs_.size(); }
    StackedEnv& env(u32 i) { return *envs_[i]; }
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

    // Waits for a batch and returns the batch's environments.
    // A batch of all environments is in the environments' order, and includes environments without a task.
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
            batch.resize(envs_.size());
            for (u32 i = 0; i < batch.size(); i++) batch[i] = i;
        }
        return batch;
    }

    // Waits for all tasks and drops their results.
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
            done_.push_back(task.env);
            if (!busy_ || error || (!whole() && done_.size() >= batch_size_)) arrived_.notify_all();
        }
    }

    void play(const Task& task) {
        StackedEnv& env = *envs_[task.env];
        if (task.action < 0) env.reset(task.seed);
        else env.step(u32(task.action));
        if (task.to) env.write(task.to);
    }

    const u32 batch_size_;
    std::vector<std::unique_ptr<StackedEnv>> envs_;
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
