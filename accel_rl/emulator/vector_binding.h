// Python binding of the vector environment, which releases the GIL while the caller waits.
#pragma once
#include <pybind11/stl.h>

#include "arrays.h"
#include "vector.h"

namespace accel {

// In all methods, obs is [n, stack, height, width], and other arrays are [n] if no other shape is given.
class PythonVector {
  public:
    using Ints = py::array_t<i32, py::array::c_style>;
    using Longs = py::array_t<long long, py::array::c_style>;

    PythonVector(const py::list& env_cores, const py::dict& rules, u32 batch_size)
        : codes_(rules["codes"].cast<std::vector<i32>>()), env_cores_(env_cores),
          owned_(std::make_unique<Vector>(pointers(env_cores), rules_of(rules), batch_size)), vector_(*owned_) {
        if (batch_size < 1 || batch_size > vector_.size()) throw std::invalid_argument("an impossible vector");
    }
    ~PythonVector() {
        stop();
        if (vector_.forked()) static_cast<void>(owned_.release());  // In a forked child, the vector is not destroyed.
    }
    void stop() {
        py::gil_scoped_release release;
        vector_.stop();
    }
    void add_thread() { vector_.add_thread(); }

    // Resets the environments `which` [n] with `seeds` [n]. A negative number means no seed. `obs` is the array for the
    // observations if a batch contains all environments, and otherwise None.
    void reset(const Ints& which, const Longs& seeds, std::optional<Bytes> obs) {
        if (seeds.size() != which.size()) throw std::invalid_argument("seeds and environments differ in number");
        std::vector<Task> tasks;
        for (py::ssize_t i = 0; i < which.size(); i++) tasks.push_back({u32(which.at(i)), -1, seeds.at(i), nullptr});
        start(tasks, obs);
    }

    // Sends actions [n], which are indices into rules["codes"], to the environments `which` [n]. `turns` [n] are
    // changes of a paddle's resistance in ohms per frame, or an empty array for the default. If `directly` is true, the
    // next recv plays in the calling thread. If some environments have ended and must be reset first, nothing is sent,
    // and their indices are returned.
    std::vector<i32> send(const Ints& which, const Longs& actions, std::optional<Bytes> obs, bool directly, const Ints& turns) {
        if (actions.size() != which.size() || (turns.size() && turns.size() != which.size()))
            throw std::invalid_argument("actions and environments differ in number");
        std::vector<i32> waiting;
        for (py::ssize_t i = 0; i < which.size(); i++)
            if (env(which.at(i)).waits_for_reset()) waiting.push_back(which.at(i));
        if (!waiting.empty()) return waiting;
        std::vector<Task> tasks;
        const long long n = (long long)codes_.size();
        for (py::ssize_t i = 0; i < which.size(); i++) {
            const long long action = actions.at(i);
            if (action < 0 || action >= n)
                throw std::invalid_argument("action " + std::to_string(action) + ": must be 0 to " + std::to_string(n - 1));
            tasks.push_back({u32(which.at(i)), codes_[size_t(action)], -1, nullptr, turns.size() ? turns.at(i) : PADDLE_TURN});
        }
        start(tasks, obs, directly);
        return {};
    }

    // Returns one batch: reward, terminated and truncated [n], `numbers` [4, n] int32 (env_id, lives, frame_number,
    // episode_frame_number), and whether an episode ended in SAME_STEP mode, so that the caller must call `final`.
    py::tuple recv(std::optional<Bytes> obs) {
        {
            py::gil_scoped_release release;
            batch_ = vector_.recv(check_signals);
        }
        const size_t n = batch_.size();
        check(obs, n);
        const auto size = py::ssize_t(n);
        Ints reward(size), numbers({py::ssize_t(4), size});
        Flags terminated(size), truncated(size);
        bool any = false;
        for (size_t i = 0; i < n; i++) {
            const StackedEnv& env = vector_.env(batch_[i]);
            const Report& report = env.finished ? env.final_report : env.report;
            reward.mutable_data()[i] = report.reward;
            terminated.mutable_data()[i] = report.terminated;
            truncated.mutable_data()[i] = report.truncated;
            i32* const to = numbers.mutable_data() + i;
            to[0] = i32(batch_[i]);
            put(env.report, to, n);
            any |= env.finished;
        }
        if (obs) {
            u8* const to = obs->mutable_data();
            py::gil_scoped_release release;
            for (size_t i = 0; i < n; i++) vector_.env(batch_[i]).write(to + i * vector_.env(0).bytes());
        }
        return py::make_tuple(reward, terminated, truncated, numbers, any);
    }

    // Writes the final observations and numbers of the episodes that ended in the last batch, and sets their entries of
    // `ended` [n]. Other rows stay unchanged.
    void final(Bytes& obs, Ints& numbers, Flags& ended) {
        const size_t n = batch_.size();
        check(obs, n);
        if (size_t(ended.size()) != n || size_t(numbers.size()) != 4 * n)
            throw std::invalid_argument("an array has the wrong size");
        for (size_t i = 0; i < n; i++) {
            const StackedEnv& env = vector_.env(batch_[i]);
            ended.mutable_data()[i] = env.finished;
            if (!env.finished) continue;
            env.write_final(obs.mutable_data() + i * env.bytes());
            put(env.final_report, numbers.mutable_data() + i, n);
        }
    }

    // Saves the states of environments. While this function runs, no environment may be playing a task.
    std::vector<py::bytes> save(const Ints& which) {
        vector_.check_process();
        std::vector<py::bytes> out;
        for (py::ssize_t i = 0; i < which.size(); i++) out.emplace_back(env(which.at(i)).save());
        return out;
    }
    void restore(const Ints& which, const std::vector<std::string>& states, bool randoms) {
        vector_.check_process();
        if (size_t(which.size()) != states.size()) throw std::invalid_argument("states and environments differ in number");
        for (py::ssize_t i = 0; i < which.size(); i++) env(which.at(i)).restore(states[size_t(i)], randoms);
    }

    // Writes the RAM of the environments `which` [n], which may not be playing, to `out` [n, 128].
    void ram(const Ints& which, Bytes& out) {
        constexpr size_t size = sizeof(State::ram);
        if (size_t(out.size()) != size * size_t(which.size())) throw std::invalid_argument("an array has the wrong size");
        for (py::ssize_t i = 0; i < which.size(); i++)
            std::memcpy(out.mutable_data() + size_t(i) * size, env(which.at(i)).ram(), size);
    }

    void drain() {
        py::gil_scoped_release release;
        vector_.drain(check_signals);
    }

  private:
    StackedEnv& env(i32 i) {
        if (i < 0 || size_t(i) >= vector_.size()) throw std::invalid_argument("there is no such env");
        return vector_.env(u32(i));
    }
    static void put(const Report& report, i32* to, size_t n) {
        to[n] = report.lives, to[2 * n] = i32(report.frame), to[3 * n] = i32(report.episode_frame);
    }
    static std::vector<AtariEnvCore*> pointers(const py::list& env_cores) {
        std::vector<AtariEnvCore*> out;
        for (auto core : env_cores) out.push_back(py::cast<AtariEnvCore*>(core));
        if (out.empty()) throw std::invalid_argument("a vector has at least one env");
        return out;
    }
    static StackedEnvRules rules_of(const py::dict& d) {
        return {d["stack"].cast<u32>(),
                d["noop_max"].cast<u32>(),
                d["max_frames"].cast<u32>(),
                d["maxpool"].cast<bool>(),
                d["fire"].cast<bool>(),
                d["episodic_life"].cast<bool>(),
                d["life_loss_info"].cast<bool>(),
                d["clips"].cast<bool>(),
                AutoReset(d["autoreset"].cast<int>()),
                d["repeat_probability"].cast<float>(),
                d["envpool"].cast<bool>()};
    }
    void check(const std::optional<Bytes>& obs, size_t n) {
        if (obs && size_t(obs->size()) != n * vector_.env(0).bytes()) throw std::invalid_argument("obs has the wrong size");
    }
    // Runs Python's signal handlers, and throws if a handler raised an exception, such as KeyboardInterrupt.
    static void check_signals() {
        py::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals()) throw py::error_already_set();
    }

    // Queues tasks. If a batch contains all environments, those without a task return their last observation again.
    void start(std::vector<Task>& tasks, std::optional<Bytes>& obs, bool directly = false) {
        vector_.check_process();
        check(obs, vector_.size());
        for (const Task& task : tasks)
            if (task.env >= vector_.size()) throw std::invalid_argument("there is no such env");
        if (obs) {
            u8* const to = obs->mutable_data();
            const size_t bytes = vector_.env(0).bytes();
            std::vector<bool> plays(vector_.size());
            for (Task& task : tasks) task.to = to + task.env * bytes, plays[task.env] = true;
            for (u32 i = 0; i < plays.size(); i++)
                if (!plays[i]) vector_.env(i).show(to + i * bytes);
        }
        py::gil_scoped_release release;
        vector_.send(tasks, directly);
    }

    const std::vector<i32> codes_;
    const py::list env_cores_;  // The list holds references to the environments, so that they are not freed.
    std::unique_ptr<Vector> owned_;
    Vector& vector_;
    std::vector<u32> batch_;
};

// Raises the exception `name` of gymnasium.error.
template <class... Arguments>
void raise_gymnasium(const char* name, Arguments... arguments) {
    const py::object type = py::module_::import("gymnasium.error").attr(name);
    PyErr_SetObject(type.ptr(), type(arguments...).ptr());
}

inline void bind_vector(py::module_& m) {
    py::register_exception_translator([](std::exception_ptr thrown) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Closed& closed) {
            raise_gymnasium("ClosedEnvironmentError", closed.what());
        } catch (const InUse& in_use) {
            raise_gymnasium("AlreadyPendingCallError", in_use.what(), "step");
        }
    });
    const py::module_ os = py::module_::import("os");
    if (py::hasattr(os, "register_at_fork"))
        os.attr("register_at_fork")(py::arg("after_in_child") = py::cpp_function([] { fork_count++; }));
    py::class_<PythonVector>(m, "Vector")
        .def(py::init<const py::list&, const py::dict&, u32>(), py::arg("env_cores"), py::arg("rules"), py::arg("batch_size"))
        .def("add_thread", &PythonVector::add_thread)
        .def("reset", &PythonVector::reset, py::arg("which"), py::arg("seeds"), py::arg("obs").noconvert())
        .def("send", &PythonVector::send, py::arg("which"), py::arg("actions"), py::arg("obs").noconvert(), py::arg("directly"),
             py::arg("turns"))
        .def("recv", &PythonVector::recv, py::arg("obs").noconvert())
        .def("final", &PythonVector::final, py::arg("obs").noconvert(), py::arg("numbers").noconvert(),
             py::arg("ended").noconvert())
        .def("save", &PythonVector::save, py::arg("which"))
        .def("restore", &PythonVector::restore, py::arg("which"), py::arg("states"), py::arg("randoms"))
        .def("ram", &PythonVector::ram, py::arg("which"), py::arg("out").noconvert())
        .def("drain", &PythonVector::drain)
        .def("stop", &PythonVector::stop);
}

}  // namespace accel
