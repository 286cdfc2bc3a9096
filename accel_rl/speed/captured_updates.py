"""On a GPU, each update is captured as one CUDA graph, and replayed without Python.

    batches() in Python    draw 1 | copy | draw 2 | copy | ...      a batch is copied to memory that stays
    graph                         | update 1     | update 2 ...     loss, backward, norm, optimizer step, after_update

If the replay is on the learner's GPU, drawing a batch is part of the graph.
"""

import copy
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from accel_rl.algos.algorithm import Algorithm, Schedules
from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.speed.capturable import hook_of
from accel_rl.speed.cuda_graph import WARM_UP, CudaGraphs, Replay
from accel_rl.text.errors import RunError
from accel_rl.text.notes import say_once

_NUMBERS = (bool, int, float, str, type(None))


class Reads:
    """`Reads` stores which attributes of an algorithm an update has read, and their values."""

    def __init__(self, algo: Algorithm):
        self._algo = algo
        self._values: dict[str, Any] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Return a context manager that records which attributes of the algorithm are read, and their values."""
        algo = self._algo
        cls = type(self._algo)
        values = self._values

        def read(instance: Any, name: str) -> Any:
            value = object.__getattribute__(instance, name)
            if name in object.__getattribute__(instance, "__dict__"):
                values.setdefault(name, value)
            return value

        make_class: Any = type(cls)
        algo.__class__ = make_class(cls.__name__, (cls,), {"__getattribute__": read})
        try:
            yield
        finally:
            algo.__class__ = cls

    def changed(self) -> str:
        """Return the name of an attribute whose value has changed, or "" if no value has changed."""
        now = vars(self._algo)
        for name, value in self._values.items():
            current = now.get(name)
            if current is not value and not (isinstance(value, _NUMBERS) and current == value):
                return name
        return ""

    def restore(self) -> None:
        """Reset the algorithm's attributes to the values that the update has read."""
        vars(self._algo).update(self._values)


def numbers_of(algo: Algorithm) -> dict[str, Any]:
    """Return {name: value} of the attributes of the agent, and of its network's modules, that are plain Python
    values."""
    model: nn.Module = algo.agent.model
    owners: list[tuple[str, object]] = [(type(algo.agent).__name__, algo.agent)]
    owners += [(f"{type(m).__name__} {name}".strip(), m) for name, m in model.named_modules()]
    return {
        f"{owner}.{name}": value
        for owner, thing in owners
        for name, value in vars(thing).items()
        if isinstance(value, _NUMBERS)
    }


def kind_of(batch: Any, device: str) -> Hashable | None:
    """Return a key that identifies the kind of a batch: the types, shapes and dtypes of its parts, its numbers, and
    which parts are None. The same captured update can be replayed for all batches of a kind. Returns None if a tensor
    of the batch is not on a device of type `device`, or if a part cannot be copied."""
    if isinstance(batch, Tensor):
        same = batch.device.type == device
        return (tuple(batch.shape), tuple(batch.stride()), batch.dtype) if same else None
    if batch is None or isinstance(batch, bool | int | float | str):
        return type(batch), batch
    parts = _parts(batch)
    if parts is None:
        return None
    kinds = tuple((name, kind_of(part, device)) for name, part in parts.items())
    return None if any(kind is None for _, kind in kinds) else (type(batch), kinds)


class StaticBatch:
    """A `StaticBatch` is a copy of a batch at fixed addresses. A replayed update reads its tensors, which `load`
    overwrites."""

    def __init__(self, batch: Any):
        self._tensors: list[Tensor] = []
        self.batch = _mapped(batch, self._cloned)

    def _cloned(self, x: Tensor) -> Tensor:
        self._tensors.append(x.detach().clone())
        return self._tensors[-1]

    def load(self, batch: Any) -> None:
        """Copy a batch of the same kind to the fixed addresses."""
        tensors: list[Tensor] = []
        _mapped(batch, lambda x: tensors.append(x) or x)  # type: ignore[func-returns-value]
        for static, x in zip(self._tensors, tensors, strict=True):
            static.copy_(x)


def _parts(batch: Any) -> dict[Any, Any] | None:
    if is_dataclass(batch) and not isinstance(batch, type):
        return {f.name: getattr(batch, f.name) for f in fields(batch)}
    if isinstance(batch, dict):
        return dict(batch)
    if isinstance(batch, tuple | list):
        return dict(enumerate(batch))
    return None


def _mapped(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a copy of a batch in which each tensor x is replaced by change(x). The constructors of the batch's
    dataclasses are not called."""
    if isinstance(batch, Tensor):
        return change(batch)
    parts = _parts(batch)
    if parts is None:
        return batch
    changed = {name: _mapped(part, change) for name, part in parts.items()}
    if isinstance(batch, dict):
        return changed
    if isinstance(batch, tuple | list):
        return type(batch)(*changed.values()) if hasattr(batch, "_fields") else type(batch)(changed.values())
    result = copy.copy(batch)
    for name, part in changed.items():
        object.__setattr__(result, name, part)
    return result


logger = logging.getLogger(__name__)

Update = Callable[[Any], Mapping[str, Tensor | float]]
"""`Update` is a function that makes one update from a batch, and returns the metrics."""
MOST = 16
"""At most `MOST` kinds of batches have CUDA graphs; updates with other batches run from Python."""


class _Graph(NamedTuple):
    replay: Replay
    names: tuple[str, ...]
    sums: Tensor  # The tensor into which the graph writes the update's metrics
    batch: StaticBatch | None
    reads: Reads


class CapturedUpdates:
    """`CapturedUpdates` makes the updates of a learning phase. The first updates with each kind of batch run from
    Python, and later updates replay a CUDA graph.

    The results of replayed updates are bitwise equal to those of the same updates from Python. There is one graph for
    each kind of batch (shapes, dtypes, which parts are None). An update that synchronizes with the GPU, or reads Python
    values that change, is not captured, and the reason is logged once.

    NCCL requires that either all ranks capture a collective operation or none, and that the ranks launch matching
    graphs together. The ranks therefore exchange the numbers of their kinds of batches before each update, and there is
    one graph for each combination of these numbers.
    """

    def __init__(self, algo: Algorithm, update: Update, never: str = ""):
        """`never` is the reason why no update may be captured, or ""."""
        self._algo = algo
        self._update = update
        self._graphs = CudaGraphs(algo.device)
        self._numbers: dict[Hashable, int] = {}  # Maps each kind of batch to its number, from 1
        self._captures: dict[tuple[int, ...], _Graph] = {}  # Maps each `_key` to the captured CUDA graph.
        self._warm_ups: dict[tuple[int, ...], int] = {}  # Maps each `_key` to its number of updates so far.
        self._logged: set[str] = set()
        self._never = never or hook_of(algo.agent.model) or ""
        self.enabled = not self._never

    def phase(self) -> Iterator[UpdateMetrics]:
        """Make the updates of a learning phase without synchronizing with the GPU, and yield the metrics of each
        update."""
        algo = self._algo
        if self._never:  # Logged here, because events.log is written only during training.
            self._refuse(self._never)
        if self.enabled and isinstance(algo, ReplayAlgorithm) and _draws_on_the_gpu(algo):
            for _ in algo.phase():
                yield self._make(("draw", algo.replay.key), None)
        else:
            for batch in algo.batches():
                yield self._make(kind_of(batch, algo.device.type), batch)

    def _make(self, kind: Hashable | None, batch: Any) -> UpdateMetrics:
        """Make one update, by replaying a graph if possible. `batch` is None if the update itself draws the batch."""
        key = self._key(kind, is_limited=batch is not None)
        if key is None:
            return self._from_python(batch)
        if key not in self._captures:
            if not self._is_warm(key):
                with self._graphs.warming_up():
                    return self._checked(batch)
            if not self._capture(key, batch):
                return self._from_python(batch)
        graph = self._captures[key]
        if graph.batch is not None:
            graph.batch.load(batch)
        graph.replay()
        # The metrics are cloned, because the next replay overwrites them.
        return UpdateMetrics(graph.names, graph.sums.clone(), 1)

    def _is_warm(self, key: tuple[int, ...]) -> bool:
        self._warm_ups[key] = self._warm_ups.get(key, 0) + 1
        return self._warm_ups[key] > WARM_UP

    def _key(self, kind: Hashable | None, is_limited: bool) -> tuple[int, ...] | None:
        """Return the number of each rank's kind of batch in the next update, or None if the update must run from
        Python. With `is_limited`, at most MOST kinds are captured."""
        if not self.enabled:  # The value of `enabled` is the same on all ranks.
            return None
        if kind is None:
            self._refuse("a batch has parts on the host, or that cannot be copied")
        elif is_limited and kind not in self._numbers and len(self._numbers) >= MOST:
            self._refuse(f"there are more than {MOST} kinds of batches")
            kind = None
        elif changed := self._changed():
            self._refuse(f"{changed!r} of {type(self._algo).__name__}, which its update reads, changes")
            kind = None
        number = 0 if kind is None else self._numbers.setdefault(kind, len(self._numbers) + 1)
        communicator = self._algo.communicator
        numbers = (number,) if communicator.size == 1 else tuple(communicator.all_gather(number))
        return numbers if all(numbers) else None

    def _changed(self) -> str:
        """Return the name of an attribute whose value has changed since a graph read it, or ""."""
        return next((name for graph in self._captures.values() if (name := graph.reads.changed())), "")

    def _capture(self, key: tuple[int, ...], batch: Any) -> bool:
        """Capture an update, and return whether all ranks succeeded. After a failed capture on any rank, no rank
        captures updates."""
        why = ""
        reads = Reads(self._algo)
        try:
            self._captures[key] = self._captured(batch, reads)
            if changed := reads.changed():
                why = f"an update changes {changed!r} of {type(self._algo).__name__}"
        except RunError:
            raise
        except RuntimeError as e:
            why = " ".join(str(e).split())[:300]
        if self._algo.communicator.all_reduce_min(int(not why)):
            return True
        reads.restore()  # The update runs again, from Python.
        self._disable(why or "another rank could not capture them")
        say_once(self._line(why or "another rank could not capture them"))
        return False

    def _captured(self, batch: Any, reads: Reads) -> _Graph:
        static = None if batch is None else StaticBatch(batch)
        captured: list[UpdateMetrics] = []

        def work() -> None:
            with reads.recording():
                captured.append(self._from_python(None if static is None else static.batch))

        generators = [self._algo.replay.generator] if isinstance(self._algo, ReplayAlgorithm) and batch is None else []
        replay = self._graphs.capture(work, generators)
        return _Graph(replay, captured[0].names, captured[0].sums, static, reads)

    def _checked(self, batch: Any) -> UpdateMetrics:
        """Make one update from Python. If the update changes plain Python values of the agent or of its network,
        disable captures."""
        before = numbers_of(self._algo)
        metrics = self._from_python(batch)
        after = numbers_of(self._algo)
        changed = next((name for name, value in before.items() if after.get(name) != value), "")
        alike = self._algo.communicator.all_reduce_min(int(not changed))
        if not alike:
            self._disable(f"an update changes {changed}" if changed else "another rank could not capture them")
        return metrics

    def _from_python(self, batch: Any) -> UpdateMetrics:
        if batch is None:
            assert isinstance(self._algo, ReplayAlgorithm)
            batch = self._algo.draw()
        return UpdateMetrics.of(self._update(batch))

    def _disable(self, why: str) -> None:
        self.enabled = False
        self.close()
        self._refuse(why)

    def close(self) -> None:
        """Free the graphs. NCCL's communicator cannot be destroyed before the graphs that contain its operations are
        freed."""
        self._captures.clear()

    def _refuse(self, why: str) -> None:
        if why not in self._logged:
            logger.info(self._line(why))
        self._logged.add(why)

    @staticmethod
    def _line(why: str) -> str:
        return f"updates are not captured as CUDA graphs, Python runs for each of them: {why}"


def _draws_on_the_gpu(algo: ReplayAlgorithm) -> bool:
    """Return whether drawing the batches can be part of a graph, because the algorithm draws them from a replay on the
    learner's GPU."""
    return type(algo).batches is ReplayAlgorithm.batches and algo.replay.is_capturable


class ScheduledTensors(Schedules):
    """`ScheduledTensors` stores the values of schedules as scalar tensors [] on a device. `progress`, `env_steps` and
    `counted` are Python numbers."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def set(self, values: Mapping[str, float]) -> None:
        """Copy the values of the schedules to the device, without synchronizing with the device."""
        for name, value in values.items():
            if name in vars(self):
                vars(self)[name].fill_(value)
            else:
                setattr(self, name, torch.full((), value, device=self._device))
