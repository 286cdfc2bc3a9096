// Records a sequence of kernel calls, and replays it in one call.
// A network that acts calls the same kernels at every step.
// Without the replay of recorded calls, the Python code between a network's layers takes a third of the time, and
// blocks other threads by holding the GIL.
#pragma once
#include <pybind11/pybind11.h>

#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "address.h"

namespace accel {

// A kernel is called with its arguments as a sequence of integers.
struct Callable {
    void (*function)(const i64* numbers);
    std::vector<bool> addresses;  // addresses[k] is true if argument k of the kernel is an address.
};

inline std::map<std::string, Callable>& callables() {
    static std::map<std::string, Callable> all;
    return all;
}

template <class T>
struct Argument {
    static constexpr size_t numbers = 1;
    static T take(const i64*& next) { return static_cast<T>(*next++); }
};

template <>
struct Argument<Geometry> {
    static constexpr size_t numbers = std::tuple_size_v<Geometry>;
    static Geometry take(const i64*& next) {
        Geometry g;
        for (i64& number : g) number = *next++;
        return g;
    }
};

template <auto F, class... A>
Callable callable(void (*)(A...)) {
    std::vector<bool> addresses;
    (addresses.insert(addresses.end(), Argument<std::decay_t<A>>::numbers, std::is_same_v<std::decay_t<A>, address>), ...);
    return {[](const i64* next) { std::apply(F, std::tuple<std::decay_t<A>...>{Argument<std::decay_t<A>>::take(next)...}); },
            addresses};
}

// Makes the kernel F available as `name` to Python, where it runs without the GIL, and to `CallGraph`.
template <auto F>
void define(pybind11::module_& m, const char* name) {
    m.def(name, F, pybind11::call_guard<pybind11::gil_scoped_release>());
    callables()[name] = callable<F>(F);
}

// Recorded kernel calls. Addresses within a memory region change with the step t of a rollout: the region begins at
// begin + t * step.
class CallGraph {
  public:
    struct Region {
        address begin;
        i64 step;
    };

    void add(const std::string& name, const std::vector<i64>& numbers) {
        const Callable& f = callables().at(name);
        if (numbers.size() != f.addresses.size()) throw std::invalid_argument(name + ": another number of arguments is expected");
        calls_.push_back({f.function, numbers_.size()});
        numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
        addresses_.insert(addresses_.end(), f.addresses.begin(), f.addresses.end());
    }

    // Ends the recording. Each region (begin, bytes) is the memory that the calls used at the recorded step.
    void settle(const std::vector<std::pair<address, i64>>& regions) {
        for (size_t i = 0; i < numbers_.size(); i++) {
            for (size_t r = 0; addresses_[i] && r < regions.size(); r++) {
                const i64 offset = i64(address(numbers_[i]) - regions[r].first);
                if (address(numbers_[i]) >= regions[r].first && offset < regions[r].second) {
                    moving_.push_back({i, r, offset});
                    break;
                }
            }
        }
        regions_.resize(regions.size());
    }

    // Sets each region's (begin, step) for later replays.
    void move(const std::vector<std::pair<address, i64>>& regions) {
        if (regions.size() != regions_.size()) throw std::invalid_argument("another number of regions is expected");
        for (size_t r = 0; r < regions.size(); r++) regions_[r] = {regions[r].first, regions[r].second};
    }

    void run(i64 t) {
        for (const Moving& m : moving_)
            numbers_[m.number] = i64(regions_[m.region].begin) + t * regions_[m.region].step + m.offset;
        for (const Call& call : calls_) call.function(numbers_.data() + call.numbers);
    }

    size_t size() const { return calls_.size(); }

  private:
    struct Call {
        void (*function)(const i64*);
        size_t numbers;
    };
    struct Moving {
        size_t number, region;
        i64 offset;
    };
    std::vector<Call> calls_;
    std::vector<i64> numbers_;
    std::vector<bool> addresses_;
    std::vector<Moving> moving_;
    std::vector<Region> regions_;
};

}  // namespace accel
