"""The calls of compiled kernels are recorded once and then replayed together, without Python between the kernels."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from accel_rl.kernels.native import observed

_ALLOCATIONS = ("empty", "new_empty", "empty_strided", "empty_like")


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A `CallRecord` is a recorded kernel call: the kernel's name, and its arguments in the order of the C++ signature,
    with tensors as addresses."""

    kernel: str
    arguments: tuple[int, ...]


class CallRecorder(TorchDispatchMode):
    """A `CallRecorder` records every kernel that the thread calls through `kernels.native.call` while the recorder is
    active.

    `unsupported` contains the names of torch operations that computed values while the recorder was active. A replay
    would omit torch operations, so only views and allocations are allowed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records: list[CallRecord] = []
        self.unsupported: set[str] = set()
        self._alive: list[Tensor] = []
        self._observing = observed(self.record)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False, so that torch does not import torch._dynamo, which takes seconds."""
        return False

    def __enter__(self) -> "CallRecorder":
        self._observing.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._observing.__exit__(*error)

    def record(self, kernel: str, numbers: list[Any], arguments: tuple[Any, ...]) -> None:
        flat = (x for n in numbers for x in (n if isinstance(n, tuple) else (n,)))
        self.records.append(CallRecord(kernel, tuple(int(x) for x in flat)))
        self._alive += [a for a in arguments if isinstance(a, Tensor)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if not (func.is_view or name in _ALLOCATIONS):
            self.unsupported.add(name)
        return func(*args, **(kwargs or {}))

    def graph(self, module: ModuleType) -> Any:
        """Return the recorded calls as a C++ CallGraph (src/call_graph.h)."""
        graph = module.CallGraph()
        for r in self.records:
            graph.add(r.kernel, r.arguments)
        return graph
