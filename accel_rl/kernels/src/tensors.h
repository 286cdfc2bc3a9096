// Exchanges tensors in host memory with torch by DLPack (https://dmlc.github.io/dlpack/latest), because allocating the
// outputs of a call in Python and creating views of them takes longer than copying a batch of 32.
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "address.h"

#pragma GCC visibility push(hidden)  // as pybind11's types, which some types here contain
namespace accel {

namespace py = pybind11;

struct DLType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
template <class T>
constexpr DLType TYPE{std::is_floating_point_v<T> ? 2 : std::is_unsigned_v<T>, 8 * sizeof(T), 1};

struct DLTensor {
    void* data;
    std::int32_t device_type, device_id, ndim;
    DLType type;
    i64 *shape, *strides;
    std::uint64_t offset;
};
struct DLManaged {
    DLTensor tensor;
    void* owner;
    void (*deleter)(DLManaged*);
};

// Returns a function of torch, by a reference that is never released.
inline py::handle torch_function(const char* name) {
    return py::module_::import("torch._C").attr(name).cast<py::object>().release();
}

// A contiguous tensor in host memory with elements of type T and at most one dimension. If T is char, any dtype and
// shape are accepted.
template <class T>
struct Input {
    Input() = default;
    Input(const py::object& tensor) {
        static const py::handle to_dlpack = torch_function("_to_dlpack");
        capsule = to_dlpack(tensor);
        t = &static_cast<DLManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor;
        bool fits = std::is_same_v<T, char> || (t->type.code == TYPE<T>.code && t->type.bits == TYPE<T>.bits && t->ndim < 2);
        i64 elements = 1;
        for (int d = t->ndim; d-- > 0; elements *= t->shape[d]) fits = fits && (t->shape[d] == 1 || t->strides[d] == elements);
        n = t->ndim ? t->shape[0] : 1;
        if (!fits || t->device_type != 1)
            throw std::invalid_argument("the replay expects a contiguous tensor of another dtype, shape or device");
        each = n ? elements / n * t->type.bits / 8 : 0;
        data = reinterpret_cast<T*>(static_cast<char*>(t->data) + t->offset);
    }

    py::object capsule;
    const DLTensor* t = nullptr;
    i64 n = 0, each = 0;  // The length of the first dimension, and the bytes per index of the first dimension.
    T* data = nullptr;
};

// Memory for n elements, which tensor() returns as a torch tensor.
template <class T>
struct Output {
    explicit Output(i64 n) : n(n), memory(static_cast<char*>(::operator new(size_t(n) * sizeof(T), LINE)), free) {}
    T* data() const { return reinterpret_cast<T*>(memory.get()); }
    py::object tensor() const { return tensor(0, TYPE<T>, {n}, 1); }
    py::object tensor(i64 offset, DLType type, std::vector<i64> shape, i64 stride) const {
        struct Kept {
            DLManaged managed;
            std::shared_ptr<char> memory;
            std::vector<i64> shape, strides;
        };
        static const py::handle from_dlpack = torch_function("_from_dlpack");
        std::vector<i64> strides(shape.size(), 1);
        for (size_t d = shape.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * shape[d + 1];
        strides[0] = stride;
        auto* const kept = new Kept{{}, memory, std::move(shape), std::move(strides)};
        kept->managed.tensor = {memory.get() + offset, 1, 0, int(kept->shape.size()), type, kept->shape.data(),
                                kept->strides.data(),  0};
        kept->managed.owner = kept;
        kept->managed.deleter = [](DLManaged* managed) { delete static_cast<Kept*>(managed->owner); };
        return from_dlpack(py::capsule(&kept->managed, "dltensor"));
    }

  private:
    static constexpr std::align_val_t LINE{64};
    static void free(char* p) { ::operator delete(p, LINE); }
    i64 n;
    std::shared_ptr<char> memory;
};

}  // namespace accel

template <class T>
struct pybind11::detail::type_caster<accel::Input<T>> {
    PYBIND11_TYPE_CASTER(accel::Input<T>, const_name("Tensor"));
    bool load(handle tensor, bool) { return value = accel::Input<T>(reinterpret_borrow<object>(tensor)), true; }
};
#pragma GCC visibility pop
