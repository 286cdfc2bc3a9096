"""The tensor of a simulated device, which wraps a host tensor."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.simulated_device import source_lines, streams
from tests.simulated_device.memory import Memory, races

_make = torch.Tensor._make_wrapper_subclass
_data = torch._C.TensorBase.data  # type: ignore[attr-defined]
# Contains operations.run, because this module cannot import `operations`, which imports this module.
run: list[Callable[..., Any]] = []


class DeviceTensor(Tensor):
    """A tensor on a simulated device. `raw` is the host tensor with its values. All views share one `memory`."""

    raw: Tensor
    memory: Memory

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw: Tensor, memory: Memory) -> "DeviceTensor":
        tensor = _make(
            cls, raw.shape, raw.stride(), raw.storage_offset(), dtype=raw.dtype, device=streams.DEVICES[memory.device]
        )
        tensor.raw, tensor.memory = raw, memory
        return tensor

    def __init__(self, *_: Any) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run[0](func, args, kwargs or {})

    @property
    def data(self) -> Tensor:
        return _data.__get__(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, DeviceTensor):
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, "
                "but `variable` and `tensor` have incompatible tensor type."
            )
        _data.__set__(self, value)
        self.raw, self.memory = value.raw, value.memory

    def __setitem__(self, index: Any, value: Any) -> None:
        """Assign a value to an index. As in CUDA, the assignment of a Python number makes a capture fail."""
        capture = streams.current(self.memory.device).capture
        if capture is not None and isinstance(value, int | float):
            capture.fail(
                "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned"
            )
        super().__setitem__(index, value)

    def data_ptr(self) -> int:
        return self.raw.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.raw.untyped_storage()

    def tolist(self) -> Any:
        self._wait("tolist")
        return self.raw.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numpy()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        self._wait("repr")
        return f"{self.raw!r}".replace("tensor(", "tensor(", 1)[:-1] + f", device='{self.device}')"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else repr(self)

    def _wait(self, what: str) -> None:
        stream = streams.current(self.memory.device)
        if races[0]:
            self.memory.note_read(stream, source_lines.here())
        streams.wait_for(what, stream)

    def record_stream(self, stream: streams.Stream) -> None:
        pass

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        return torch.tensor(
            data, dtype=dtype or (None if isinstance(data, Tensor) else self.dtype), device=device or self.device
        ).requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> "DeviceTensor":
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol"
            )
        if id(self) in memo:
            return memo[id(self)]
        key = ("device memory", id(self.memory))
        raw = copy.deepcopy(self.raw, memo)  # The copies of views of one storage share a new storage.
        memory = memo.get(key)  # type: ignore[call-overload]
        if memory is None:
            memory = memo[key] = Memory(raw, self.memory.device)  # type: ignore[index]
            memo[id(memory)] = (memory, self.memory)
        copied = DeviceTensor(raw, memory)
        memo[id(self)] = copied
        copied.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copied.grad = copy.deepcopy(self.grad, memo)
        for name, value in self.__dict__.items():
            if name not in ("raw", "memory"):
                copied.__dict__[name] = copy.deepcopy(value, memo)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        is_parameter = isinstance(self, torch.nn.Parameter)
        return _rebuild, (self.detach().cpu(), str(self.device), self.requires_grad, is_parameter)


def _rebuild(host: Tensor, device: str, requires_grad: bool, is_parameter: bool) -> Tensor:
    tensor = host.to(device).requires_grad_(requires_grad)
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor


def in_parts(*tensors: Tensor) -> None:
    """Declare that streams simultaneously access different parts of these tensors' memory.

    The simulation does not check the order of accesses to these tensors, because it does not know which part an index
    reads.
    """
    for tensor in tensors:
        if isinstance(tensor, DeviceTensor):
            tensor.memory.in_parts = True
