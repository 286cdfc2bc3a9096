// A vector environment, whose environments are stepped by a pool of threads.
// | caller     send(which, tasks) -> queue ........................ recv: the first `batch_size` finished, in order
// | threads                          queue -> env -> done         of arrival; of all environments, in their own order
//
// If a batch contains all environments, each environment writes its stack of observations directly into the batch's
// array. For smaller batches, recv copies the stacks.
//
// If there is only one thread, the caller of step() plays the tasks itself in recv, because handing tasks to the thread
// and back would take as long as several frames.
//
// Calls that wait check for signals such as Ctrl-C, and throw an exception if the vector environment is stopped. In a
// forked child process, the threads do not exist, and all calls except stop() fail.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "envpool_env.h"

namespace accel {

// Thrown if the vector environment was stopped, or belongs to the parent process.
struct Closed : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// Thrown if another thread is calling the vector environment.
struct InUse : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The number of forks from the first process to this process, which the Python binding counts.
inline u32 fork_count = 0;

struct Task {
    u32 env;
    i32 action;              // A task with a negative action resets its environment.
    long long seed;          // A reset has the seed `seed`; a negative number means no seed.
    u8* to;                  // The environment writes its stack to `to`; if null, recv copies the stack.
    i32 turn = PADDLE_TURN;  // The ohms by which the action turns a paddle per frame.
};

class Vector {
  public:
    // A new Vector has no threads; add_thread() starts a thread.
    // A Vector that was created before a fork must not be destroyed in the child process, where its locks and threads
    // are unusable.
    Vector(const std::vector<AtariEnvCore*>& env_cores, const StackedEnvRules& rules, u32 batch_size)
        : batch_size_(batch_size), fork_count_(fork_count), playing_(env_cores.size()) {
        for (AtariEnvCore* core : env_cores)
            envs_.push_back(rules.envpool ? std::make_unique<EnvPoolEnv>(*core, rules)
                                          : std::make_unique<StackedEnv>(*core, rules));
    }
    ~Vector() { stop(); }

    bool forked() const { return fork_count_ != fork_count; }
    void check_process() const {
        if (forked()) throw Closed("this VectorEnv was created before a fork, without its threads: create one in this process");
    }

    // Starts a thread. On Linux, a new thread has the CPU affinity of the calling thread, so that the caller can pin
    // it.
    void add_thread() {
        threads_.emplace_back([this] { work(); });
    }

    // Stops the threads and drops queued tasks. In other threads, calls that are waiting throw Closed.
    void stop() {
        if (forked()) return;
        std::vector<std::thread> threads;
        {
            const std::lock_guard<std::mutex> guard(lock_);
            stopped_ = true;
            queue_.clear();
            threads.swap(threads_);
        }
        wake_.notify_all();
        arrived_.notify_all();
        for (std::thread& thread : threads) thread.join();
    }

    size_t size() const { return envs_.size(); }
    bool whole() const { return batch_size_ == envs_.size(); }
    StackedEnv& env(u32 i) { return *envs_[i]; }
    u32 batch_size() const { return batch_size_; }

    // Queues tasks. If `directly` is true, the next recv plays the tasks in the calling thread. Throws InUse if an
    // environment is still playing, which happens only if another thread has sent it a task.
    void send(const std::vector<Task>& tasks, bool directly = false) {
        check_process();
        {
            const std::lock_guard<std::mutex> guard(lock_);
            check_use();
            for (const Task& task : tasks)
                if (playing_[task.env]) throw InUse(IN_USE);
            for (const Task& task : tasks) playing_[task.env] = true;
            queue_.insert(queue_.end(), tasks.begin(), tasks.end());
            busy_ += tasks.size();
            directly_ = directly;
        }
        if (directly) return;
        if (tasks.size() == 1) wake_.notify_one();
        else wake_.notify_all();
    }

    // Waits for a batch, and returns the indices of its environments. While recv waits, it calls `poll` every 50 ms,
    // which may throw. A batch of all environments is in the environments' order, and includes
    // environments without a task.
    template <class Poll>
    std::vector<u32> recv(Poll poll) {
        check_process();
        std::unique_lock<std::mutex> guard(lock_);
        check_use();
        if (directly_) play_queue(guard, poll);
        const size_t wanted = whole() ? busy_ + done_.size() : batch_size_;
        wait(guard, poll, [&] { return error_ || done_.size() >= wanted || !busy_; });
        if (error_) {
            const std::exception_ptr error = error_;
            error_ = nullptr;
            std::rethrow_exception(error);
        }
        if (done_.size() < wanted) throw std::logic_error("fewer tasks were sent than a batch has environments");
        std::vector<u32> batch(done_.begin(), done_.begin() + std::ptrdiff_t(wanted));
        done_.erase(done_.begin(), done_.begin() + std::ptrdiff_t(wanted));
        if (whole()) {
            batch.resize(envs_.size());
            for (u32 i = 0; i < batch.size(); i++) batch[i] = i;
        }
        return batch;
    }

    // Waits until all tasks are done, and drops their results.
    template <class Poll>
    void drain(Poll poll) {
        check_process();
        std::unique_lock<std::mutex> guard(lock_);
        check_use();
        if (directly_) play_queue(guard, poll);
        wait(guard, poll, [&] { return busy_ == 0; });
        done_.clear();
        error_ = nullptr;
    }

  private:
    static constexpr auto POLL = std::chrono::milliseconds(50);
    static constexpr const char* IN_USE = "another thread uses this VectorEnv: create one for each thread";

    void check_use() const {
        if (stopped_) throw Closed("this VectorEnv is closed: create another one");
        if (waits_) throw InUse(IN_USE);
    }

    struct Waiting {
        bool& flag;
        explicit Waiting(bool& f) : flag(f) { flag = true; }
        ~Waiting() { flag = false; }
    };
    struct Unlocked {
        std::unique_lock<std::mutex>& guard;
        explicit Unlocked(std::unique_lock<std::mutex>& g) : guard(g) { guard.unlock(); }
        ~Unlocked() { guard.lock(); }
    };

    template <class Poll, class Ready>
    void wait(std::unique_lock<std::mutex>& guard, Poll poll, Ready ready) {
        const Waiting waiting(waits_);
        while (!arrived_.wait_for(guard, POLL, [&] { return stopped_ || ready(); })) {
            const Unlocked unlocked(guard);  // If `poll` throws an exception, the lock is held again.
            poll();
        }
        if (stopped_) throw Closed("this VectorEnv was closed by another thread");
    }

    template <class Poll>
    void play_queue(std::unique_lock<std::mutex>& guard, Poll poll) {
        const Waiting waiting(waits_);
        auto polled = std::chrono::steady_clock::now();
        while (!queue_.empty()) {
            play_first(guard);
            if (const auto now = std::chrono::steady_clock::now(); now > polled + POLL) {
                const Unlocked unlocked(guard);
                poll();
                polled = now;
            }
        }
    }

    void work() {
        std::unique_lock<std::mutex> guard(lock_);
        for (;;) {
            wake_.wait(guard, [&] { return stopped_ || !queue_.empty(); });
            if (stopped_) return;
            play_first(guard);
            if (!busy_ || error_ || (!whole() && done_.size() >= batch_size_)) arrived_.notify_all();
        }
    }

    void play_first(std::unique_lock<std::mutex>& guard) {
        const Task task = queue_.front();
        queue_.pop_front();
        std::exception_ptr error;
        {
            const Unlocked unlocked(guard);
            try {
                play(task);
            } catch (...) {
                error = std::current_exception();
            }
        }
        if (error) error_ = error;
        busy_--;
        playing_[task.env] = false;
        done_.push_back(task.env);
    }

    void play(const Task& task) {
        StackedEnv& env = *envs_[task.env];
        if (task.action < 0) env.reset(task.seed);
        else {
            env.set_turn(task.turn);
            env.step(u32(task.action));
        }
        if (task.to) env.write(task.to);
    }

    const u32 batch_size_, fork_count_;
    std::vector<std::unique_ptr<StackedEnv>> envs_;
    std::vector<std::thread> threads_;
    std::mutex lock_;
    std::condition_variable wake_, arrived_;
    std::deque<Task> queue_;
    std::deque<u32> done_;
    size_t busy_ = 0;
    std::exception_ptr error_;
    std::vector<bool> playing_;  // The set has the environments with a task that is queued or running.
    bool stopped_ = false, waits_ = false, directly_ = false;
};

}  // namespace accel
