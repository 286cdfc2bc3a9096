"""On a CPU, the kernel calls of an inference step are captured once, and replayed at every later step without
Python."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.kernels import native
from accel_rl.kernels.native import call, observed
from accel_rl.samplers.inference.inference import Inference
from accel_rl.speed import capturable

_ALLOCATIONS = ("empty", "new_empty", "empty_strided", "empty_like")


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A recorded kernel call: the kernel's name, and its arguments in the order of the C++ signature. Tensors are
    recorded as addresses."""

    kernel: str
    arguments: tuple[int, ...]


class CallRecorder(TorchDispatchMode):
    """While the recorder is active, it records every kernel that the thread calls through `kernels.native.call`.

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
        """The recorded calls as a C++ CallGraph (src/call_graph.h)."""
        graph = module.CallGraph()
        for r in self.records:
            graph.add(r.kernel, r.arguments)
        return graph


class _StepMemory(NamedTuple):
    """The memory of an array of the rollout that step t reads or writes: `bytes` bytes from the address begin + t *
    step."""

    begin: int
    step: int
    bytes: int

    @classmethod
    def of(cls, x: Tensor, b: slice, rows: int = 1) -> "_StepMemory":
        """`x` is [T, B, ...], of which each step reads `rows` rows of the environments `b`."""
        size, n = x.itemsize, b.stop - b.start
        step = x.stride(0) * size
        return cls(x.data_ptr() + b.start * x.stride(1) * size, step, (rows - 1) * step + n * x.stride(1) * size)


class _Capture(NamedTuple):
    recorder: CallRecorder
    graph: Any  # A CallGraph (kernels/src/call_graph.h)
    recorded: dict[str, torch.dtype]  # Maps the name of each value that the agent records to its dtype.


class CapturedInference(Inference):
    """Captures, for each group of environments, the kernel calls from the group's frames to its actions.

    The second step of a group is captured. Each later step replays the captured calls with the step's own addresses,
    with bitwise equal results. Agents and modules that are not registered (`capturable`), and networks with operations
    other than kernels, are not captured, and the reason is logged once.
    """

    def __init__(self, groups: Sequence[slice], enabled: bool = True):
        self._groups = groups
        never = "" if enabled else "--sampler.no-capture"
        if native.compiled() is None:
            never = "the compiled kernels are not built"
        self._eligibility = capturable.Eligibility(never)
        self._captures: dict[int, _Capture] = {}
        self._uncapturable: set[int] = set()  # The groups whose inference cannot be captured
        self._served: set[int] = set()  # The groups that have acted since `Eligibility.key` changed
        # Maps each buffer to (number of the rollout, rollout, uniform random numbers).
        self._rollouts: dict[int, tuple[int, Rollout, Tensor]] = {}
        self._placed: dict[int, int] = {}  # {group: number of the rollout whose addresses the captured calls use}
        self._count = 0

    def begin(self, buffer: int, rollout: Rollout, uniform: Tensor) -> None:
        self._count += 1
        self._rollouts[buffer] = self._count, rollout, uniform

    def use(self, agent: Agent, settings: Hashable, state: Tensor | None = None) -> None:
        """Set the agent whose inference is captured, and drop captures that another agent or other `settings` made
        invalid. If the agent has a recurrent `state`, inference is not captured."""
        if self._eligibility.use(agent, settings):
            for of_agent in (self._captures, self._uncapturable, self._served):
                of_agent.clear()

    @property
    def reads_frames(self) -> bool:  # type: ignore[override]
        return self._eligibility.key is not None

    def replay(self, buffer: int, t: int, group: int) -> bool:
        capture = self._captures.get(group)
        if capture is None:
            return False
        number, rollout, uniform = self._rollouts[buffer]
        if self._placed.get(group) != number:
            self._placed[group] = number
            capture.graph.move([(m.begin, m.step) for m in self._step_memory(group, rollout, uniform, capture)])
        capture.graph.run(t)
        return True

    @contextmanager
    def capturing(self, buffer: int, t: int, group: int) -> Iterator[None]:
        module = native.compiled()
        if self._eligibility.key is None or module is None or group in self._uncapturable or group not in self._served:
            self._served.add(group)
            yield
            return
        with CallRecorder() as recorder:
            yield
        if recorder.unsupported:
            self._uncapturable.add(group)
            self._eligibility.refuse(f"no kernel computes {', '.join(sorted(recorder.unsupported))}")
            return
        _, rollout, uniform = self._rollouts[buffer]
        names = {name: x.dtype for name, x in rollout.recorded.items()}
        capture = _Capture(recorder, recorder.graph(module), names)
        memory = self._step_memory(group, rollout, uniform, capture)
        capture.graph.settle([(m.begin + t * m.step, m.bytes) for m in memory])
        self._placed.pop(group, None)
        self._captures[group] = capture

    def store(self, out: Tensor, value: Tensor) -> None:
        copy_(out, value)

    def _step_memory(self, group: int, r: Rollout, uniform: Tensor, capture: _Capture) -> list[_StepMemory]:
        b = self._groups[group]
        for name, dtype in capture.recorded.items():
            if name not in r.recorded:  # In the first rollout of a buffer, allocate the array.
                r.recorded.setdefault(name, torch.zeros(r.T, r.B, dtype=dtype))
        # Captured kernels get the frames of all environments, and select those of the group by an index.
        memory = [_StepMemory.of(r.frames, slice(0, r.B), r.stack)]
        memory += [_StepMemory.of(x, b) for x in (r.age, uniform, r.action)]
        memory += [_StepMemory.of(r.recorded[name], b) for name in capture.recorded]
        return memory


def copy_(out: Tensor, source: Tensor) -> None:
    """Copy an array [n] of one step's values, by a kernel if the kernel supports the arrays."""
    module = native.compiled() if _are_alike(out, source) else None
    if module is None:
        out.copy_(source)
    else:
        call(module, "copy", source.nbytes, source, out)


def _are_alike(out: Tensor, source: Tensor) -> bool:
    same = (out.device.type, out.dtype, out.shape) == ("cpu", source.dtype, source.shape)
    return same and source.device.type == "cpu" and out.is_contiguous() and source.is_contiguous()
