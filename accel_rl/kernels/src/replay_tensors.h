// Replays in host memory exchange tensors with torch by DLPack (https://dmlc.github.io/dlpack/latest), because an output of a
// call then takes 1 us. To allocate outputs and to take views of them in Python takes longer than to copy a batch of 32.
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <new>

#include "replay.h"

namespace accel {

namespace py = pybind11;

struct DLType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
constexpr DLType INT16{0, 16, 1}, INT32{0, 32, 1}, INT64{0, 64, 1}, UINT8{1, 8, 1}, FLOAT32{2, 32, 1}, FLOAT64{2, 64, 1};

struct DLTensor {
    void* data;
    std::int32_t device_type, device_id, ndim;
    DLType dtype;
    i64 *shape, *strides;
    std::uint64_t offset;
};

struct DLManaged {
    DLTensor tensor;
    void* owner;
    void (*deleter)(DLManaged*);
};

// Returns a function of torch, which is never freed.
inline py::handle torch_function(const char* name) { return py::module_::import("torch._C").attr(name).cast<py::object>().release(); }

// A contiguous tensor [n, ...] in host memory.
class Input {
  public:
    Input(const py::object& tensor) {
        static const py::handle to_dlpack = torch_function("_to_dlpack");
        capsule = to_dlpack(tensor);
        t = &static_cast<DLManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor;
        i64 expected = 1;
        bool fits = t->device_type == 1 && t->ndim > 0 && t->dtype.bits % 8 == 0;
        for (int d = t->ndim; fits && d-- > 0; expected *= t->shape[d]) fits = t->shape[d] == 1 || t->strides[d] == expected;
        if (!fits) throw std::invalid_argument("a tensor of the replay is not contiguous in host memory");
        elements = expected;
    }
    Input(const py::object& tensor, DLType dtype, i64 length = -1) : Input(tensor) {
        if (t->dtype.code != dtype.code || t->dtype.bits != dtype.bits || t->ndim != 1 || (length >= 0 && elements != length))
            throw std::invalid_argument("a tensor of the replay has another dtype or shape");
    }
    address data() const { return address(t->data) + t->offset; }

    py::object capsule;
    const DLTensor* t;
    i64 elements;
};

using Memory = std::shared_ptr<char>;

inline Memory allocate(i64 bytes) {
    const std::align_val_t line{64};
    return {static_cast<char*>(::operator new(size_t(bytes), line)), [line](char* p) { ::operator delete(p, line); }};
}

inline py::object tensor(Memory memory, i64 offset, DLType dtype, std::vector<i64> shape, i64 stride = 0) {
    struct Output {
        DLManaged managed;
        Memory memory;
        std::vector<i64> shape, strides;
    };
    std::vector<i64> strides(shape.size(), 1);
    for (size_t d = shape.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * shape[d + 1];
    if (stride) strides[0] = stride;
    auto* const o = new Output{{}, std::move(memory), std::move(shape), std::move(strides)};
    o->managed = {{o->memory.get() + offset, 1, 0, int(o->shape.size()), dtype, o->shape.data(), o->strides.data(), 0}, o,
                  [](DLManaged* m) { delete static_cast<Output*>(m->owner); }};
    static const py::handle from_dlpack = torch_function("_from_dlpack");
    return from_dlpack(py::capsule(&o->managed, "dltensor"));
}

inline py::object vector(Memory memory, DLType dtype, i64 N) { return tensor(std::move(memory), 0, dtype, {N}); }

// A ring in host memory.
class HostRing {
  public:
    // The arguments are the fields of `RingArrays`, except for `finals`.
    HostRing(py::object frames_, py::object age_, py::object action_, py::object reward_, py::object flags_, py::object final_, i64 B,
             i64 stack, i64 n, float gamma, float clip)
        : frames(frames_), age(age_, UINT8), action(action_), reward(reward_, FLOAT32, age.elements), flags(flags_, UINT8, age.elements),
          final(final_, INT32, age.elements) {
        const i64 size = age.elements;
        action = Input(action_, action.t->dtype.bits == 8 ? UINT8 : INT16, size);
        if (std::min({size, B, stack, n}) < 1 || size % B || frames.t->shape[0] != size)
            throw std::invalid_argument("the arrays of a ring have other sizes");
        ring = {size, B, stack, n, frames.elements / size * frames.t->dtype.bits / 8, action.t->dtype.bits / 8, gamma, clip,
                frames.data(), age.data(), action.data(), reward.data(), flags.data(), final.data()};
    }

    // Returns (cells [N], ones [N]) as Ring::nth does. `before` is None if every cell can be drawn.
    py::tuple nth(const py::object& uniform_, i64 drawable, i64 first, const py::object& before_) const {
        const Input uniform(uniform_, FLOAT64), before = before_.is_none() ? uniform : Input(before_, INT64, ring.size / ring.B + 1);
        const i64 N = uniform.elements;
        const Memory cell = allocate(8 * N), ones = allocate(4 * N);
        ring.nth(N, at<const double>(uniform.data()), drawable, first, at<const i64>(before.data()),
                 before_.is_none() ? 0 : before.elements, at<i64>(address(cell.get())));
        std::fill_n(at<float>(address(ones.get())), N, 1.0f);
        return py::make_tuple(vector(cell, INT64, N), vector(ones, FLOAT32, N));
    }

    // Returns the fields of `Gathered`.
    py::tuple gather(const py::object& finals_, const py::object& cell_, int threads) const {
        const Input finals(finals_), cell(cell_, INT64);
        const bool window = ring.stack > 1 && ring.n == 1;
        const i64 N = cell.elements, slots = finals.t->shape[0], each = ring.stack * ring.bytes, stride = each + window * ring.bytes;
        if (!slots || finals.elements / slots != frames.elements / ring.size || finals.t->dtype.bits != frames.t->dtype.bits)
            throw std::invalid_argument("the final frames have another shape");
        const Memory obs = allocate(N * (window ? stride : 2 * each)), r_t = allocate(4 * N), discount_t = allocate(4 * N),
                     a_tm1 = allocate(8 * N);
        const i64 next = window ? ring.bytes : N * each;
        {
            py::gil_scoped_release no_gil;
            ring.gather(N, at<const i64>(cell.data()), at<const char>(finals.data()), slots, window, obs.get(), obs.get() + next,
                        at<float>(address(r_t.get())), at<float>(address(discount_t.get())), at<i64>(address(a_tm1.get())), threads);
        }
        std::vector<i64> shape{N};
        if (ring.stack > 1) shape.push_back(ring.stack);
        shape.insert(shape.end(), frames.t->shape + 1, frames.t->shape + frames.t->ndim);
        const DLType dtype = frames.t->dtype;
        return py::make_tuple(tensor(obs, 0, dtype, shape, stride * 8 / dtype.bits), tensor(obs, next, dtype, shape, stride * 8 / dtype.bits),
                              vector(r_t, FLOAT32, N), vector(discount_t, FLOAT32, N), vector(a_tm1, INT64, N));
    }

    Ring ring;

  private:
    Input frames, age, action, reward, flags, final;
};

// A sum tree in host memory.
class HostTree {
  public:
    HostTree(const std::vector<py::object>& tensors) {
        for (const py::object& tensor : tensors) {
            levels.emplace_back(tensor, levels.empty() ? FLOAT32 : FLOAT64);
            const i64 length = levels.back().elements;
            if (length < 1 || length % Levels::FANOUT || (levels.size() > 1 && length * Levels::FANOUT < tree.lengths.back()))
                throw std::invalid_argument("the levels of a sum tree have other lengths");
            tree.entries.push_back(levels.back().data());
            tree.lengths.push_back(length);
        }
        if (levels.empty() || tree.lengths.back() != Levels::FANOUT) throw std::invalid_argument("a sum tree has no root");
    }

    // Returns (cells [N], probabilities [N]).
    py::tuple draw(const py::object& uniform_, const HostRing& host, i64 newest) const {
        const Input uniform(uniform_, FLOAT64);
        const i64 N = uniform.elements;
        const Memory cell = allocate(8 * N), probability = allocate(8 * N);
        tree.draw(N, at<const double>(uniform.data()), host.ring, newest, at<i64>(address(cell.get())),
                  at<double>(address(probability.get())));
        return py::make_tuple(vector(cell, INT64, N), vector(probability, FLOAT64, N));
    }

    // `highest` [1] is raised to the largest new weight.
    void update(const py::object& cell_, const py::object& weight_, const HostRing& host, i64 first, i64 end, const py::object& highest_) {
        const Input cell(cell_, INT64), weight(weight_, FLOAT32, cell.elements), highest(highest_, FLOAT32, 1);
        if (host.ring.size > tree.lengths[0]) throw std::invalid_argument("a sum tree is smaller than the ring");
        tree.update(cell.elements, at<const i64>(cell.data()), at<const float>(weight.data()), host.ring, first, end,
                    *at<float>(highest.data()));
    }

  private:
    std::vector<Input> levels;
    Levels tree;
};

}  // namespace accel
