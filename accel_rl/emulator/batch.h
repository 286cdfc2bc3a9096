// A worker's environments, if they are all of one group: step after step as it is asked for, without Python between them.
#pragma once
#include <sched.h>

#include <chrono>
#include <vector>

#include "../kernels/src/sampler/signal_cells.h"
#include "env_core.h"
#include "arrays.h"

namespace accel {

// What the rollouts hold of it, slot by slot (data/step.py), and what the batch itself knows (envs/sequential.py).
class Batch {
  public:
    using Longs = py::array_t<i64, py::array::c_style>;

    // codes: of the game's actions. age [n]: each environment's, up to `oldest`; waiting [n]: for a reset.
    Batch(const std::vector<i32>& codes, u8 oldest, Bytes& age, Flags& waiting)
        : codes_(codes), oldest_(oldest), n_(size_t(age.size())), age_(age.mutable_data()), waiting_(waiting.data()) {
        if (size_t(waiting.size()) != n_) throw std::invalid_argument("as many ages as flags are wanted");
        held_.append(age), held_.append(waiting);
    }

    void set_agents(const py::list& agents) {
        if (agents.size() != n_) throw std::invalid_argument("another number of agents");
        agents_.clear();
        for (auto agent : agents) agents_.push_back(py::cast<AtariEnvCore*>(agent));
        owner_ = agents;
    }

    // The next slot's arrays.
    void add(Longs& action, Bytes& frame, Floats& reward, Flags& terminated, Flags& truncated, Flags& ended, Flags& valid, Bytes& age) {
        const auto n = py::ssize_t(n_);
        if (action.size() != n || reward.size() != n || terminated.size() != n || truncated.size() != n || ended.size() != n ||
            valid.size() != n || age.size() != n || size_t(frame.size()) % n_)
            throw std::invalid_argument("an array has the wrong size");
        slots_.push_back({action.data(), frame.mutable_data(), size_t(frame.size()) / n_, reward.mutable_data(), terminated.mutable_data(),
                          truncated.mutable_data(), ended.mutable_data(), valid.mutable_data(), age.mutable_data()});
        for (const py::object& array : std::initializer_list<py::object>{action, frame, reward, terminated, truncated, ended, valid, age})
            held_.append(array);
    }

    // Plays what is asked for at `request`, answers, and rings `server`; env_ns += the time it took. done: so is what was asked
    // for last, it is to be answered. Returns the slot at which an episode has ended, to be settled and then answered, or -1
    // if nothing is due but something said at `control`, or if what is due is no step. spins: looks before it sleeps.
    i64 play(address request, address answer, address slot, int bell, int control, int server, address env_ns, int spins, bool done) {
        if (agents_.size() != n_ || slots_.empty()) throw std::invalid_argument("a batch without agents or slots");
        if (done) post(request, answer, slot, server);
        for (;;) {
            for (int i = 0; i < spins && seen(request) == *at<i64>(answer); i++) sched_yield();
            while (seen(request) == *at<i64>(answer))
                if (!heard(bell, control)) return -1;
            const i64 asked = at<i64>(slot)[0] + *at<i64>(answer);
            if (asked < 0) return -1;
            const auto began = std::chrono::steady_clock::now();
            const size_t k = size_t(asked) % slots_.size();
            const bool ended = step(slots_[k]);
            *at<i64>(env_ns) += std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count();
            if (ended) return i64(k);
            post(request, answer, slot, server);
        }
    }

  private:
    struct Slot {
        const i64* action;
        u8* frame;
        size_t bytes;  // of a frame
        float* reward;
        bool *terminated, *truncated, *ended, *valid;
        u8* age;
    };

    static void post(address request, address answer, address slot, int server) {
        const i64 given = *at<i64>(answer) + 1;
        raise(answer, given);
        if (given == seen(request) || given == at<i64>(slot)[1]) ring(server);
    }

    bool step(const Slot& s) {
        bool any = false;
        for (size_t i = 0; i < n_; i++) {
            Outcome o{0, false, false, false};
            const i64 action = s.action[i];
            const bool plays = action >= 0 && !waiting_[i];
            if (plays && size_t(action) >= codes_.size()) throw std::out_of_range("action " + std::to_string(action) + " is none of the game's");
            if (plays) o = agents_[i]->step(u32(codes_[size_t(action)]), nullptr, s.frame + i * s.bytes);
            else std::memset(s.frame + i * s.bytes, 0, s.bytes);
            s.reward[i] = o.reward, s.terminated[i] = o.terminated, s.truncated[i] = o.truncated, s.ended[i] = o.ended;
            s.valid[i] = plays;
            age_[i] = plays ? u8(age_[i] + (age_[i] < oldest_)) : 0;
            s.age[i] = age_[i];
            any |= o.ended;
        }
        return any;
    }

    const std::vector<i32> codes_;
    const u8 oldest_;
    const size_t n_;
    u8* const age_;
    const bool* const waiting_;
    std::vector<Slot> slots_;
    std::vector<AtariEnvCore*> agents_;
    py::list held_;  // the arrays
    py::object owner_;  // of the agents
};

inline void bind_batch(py::module_& m) {
    py::class_<Batch>(m, "Batch")
        .def(py::init<const std::vector<i32>&, u8, Bytes&, Flags&>(), py::arg("codes"), py::arg("oldest"),
             py::arg("age").noconvert(), py::arg("waiting").noconvert())
        .def("set_agents", &Batch::set_agents)
        .def("add", &Batch::add, py::arg("action").noconvert(), py::arg("frame").noconvert(), py::arg("reward").noconvert(),
             py::arg("terminated").noconvert(), py::arg("truncated").noconvert(), py::arg("ended").noconvert(),
             py::arg("valid").noconvert(), py::arg("age").noconvert())
        .def("play", &Batch::play, py::call_guard<py::gil_scoped_release>());
}

}  // namespace accel
