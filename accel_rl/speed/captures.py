"""Computations of an algorithm are captured as CUDA graphs, and replayed without Python, with identical results."""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from types import MethodType
from typing import Any, NamedTuple

import torch
from torch import nn

from accel_rl.algos.algorithm import Algorithm
from accel_rl.speed.cuda_graph import WARM_UP, CudaGraphs, Replay
from accel_rl.text.errors import RunError
from accel_rl.text.notes import say_once

logger = logging.getLogger(__name__)

MOST = 16
"""At most `MOST` kinds of computations are captured as CUDA graphs; all other kinds run from Python."""
Work = Callable[[], Any]
Captured = Callable[[Any], Any]
"""A function of the algorithm, whose operations are captured"""
Generators = Sequence[torch.Generator]
_NUMBERS = (bool, int, float, str, type(None))


class Reads:
    """The attributes of an algorithm that an update has read, and their values."""

    def __init__(self, algo: Algorithm):
        self._algo = algo
        self._values: dict[str, Any] = {}

    def recorder(self) -> Algorithm:
        """A second object that shares the algorithm's attributes and methods, and records which of its attributes are
        read. Attributes that an update reads directly from the algorithm are not recorded."""
        algo, values, attributes = self._algo, self._values, vars(self._algo)

        class Recorder(type(algo)):  # type: ignore[misc]
            def __getattribute__(self, name: str) -> Any:
                value = object.__getattribute__(self, name)
                if name in attributes:
                    values.setdefault(name, value)
                    if isinstance(value, MethodType) and value.__self__ is algo:
                        return MethodType(value.__func__, self)
                return value

        recorder: Algorithm = object.__new__(Recorder)
        recorder.__dict__ = attributes
        return recorder

    def changed(self) -> str:
        """The name of an attribute whose value has changed, or ""."""
        now = vars(self._algo)
        for name, value in self._values.items():
            current = now.get(name)
            if current is not value and not (isinstance(value, _NUMBERS) and current == value):
                return name
        return ""

    def restore(self) -> None:
        vars(self._algo).update(self._values)


def numbers_of(algo: Algorithm) -> dict[str, Any]:
    """{name: value} of all attributes of the agent and of its network's modules whose values are plain Python numbers,
    texts or None."""
    model: nn.Module = algo.agent.model
    owners: list[tuple[str, object]] = [(type(algo.agent).__name__, algo.agent)]
    owners += [(f"{type(m).__name__} {name}".strip(), m) for name, m in model.named_modules()]
    return {
        f"{owner}.{name}": value
        for owner, thing in owners
        for name, value in vars(thing).items()
        if isinstance(value, _NUMBERS)
    }


class Key(NamedTuple):
    number: int
    """The number of the kind of this rank's computation"""
    ranks: tuple[int, ...]
    """The numbers of the kinds of all ranks' computations"""


class Captures:
    """The CUDA graphs of one of an algorithm's computations. The first computations of each kind run from Python, and
    later ones replay a CUDA graph.

    The results of replayed computations are bitwise equal to those from Python. Each kind of computation has its own
    graph. A computation that synchronizes with the GPU, or reads Python values that change, is not captured, and the
    reason is logged once.

    NCCL requires that either all ranks capture a collective operation or none, and that the ranks launch matching
    graphs together. The ranks therefore exchange the numbers of the kinds of their next computations, and there is one
    graph for each combination of these numbers.
    """

    def __init__(self, algo: Algorithm, graphs: CudaGraphs, what: str, never: str):
        """`what` names the computations in messages. `never` is the reason why no computation may be captured, or
        ""."""
        self._algo = algo
        self._graphs = graphs
        self._what = what
        self._numbers: dict[Hashable, int] = {}  # Maps each kind to its number, from 1
        self._reads: dict[int, Reads] = {}  # Maps the number of each captured kind to the attributes read by its graphs
        # Maps `Key.ranks` to (graph, result of the captured function). The result contains no tensors.
        self._captures: dict[tuple[int, ...], tuple[Replay, Any]] = {}
        self._warm_ups: Counter[tuple[int, ...]] = Counter()
        self._logged: set[str] = set()
        self.why = never
        """The reason why no further computation is captured, or "". Either all ranks have a reason, or no rank has."""

    def keys(self, kinds: Sequence[Hashable | None], limited: bool = True) -> list[Key | None]:
        """The keys of the next computations, whose number is the same on all ranks. The ranks exchange the kinds of
        their computations once. A kind is None if the computation cannot be captured. With `limited`, at most MOST
        kinds are captured. If a computation must run from Python on any rank, its key is None."""
        if self.why:
            self._log(self.why)  # The reason is logged now, because events.log is written only during training.
            return [None for _ in kinds]
        numbers = [self._number(kind, limited) for kind in kinds]
        communicator = self._algo.communicator
        ranks = [numbers] if communicator.size == 1 else communicator.all_gather(numbers)
        return [Key(number, tuple(key)) if all(key) else None for number, *key in zip(numbers, *ranks, strict=True)]

    def run(
        self, key: Key | None, python: Work, captured: Captured, load: Work = bool, generators: Generators = ()
    ) -> Any:
        """Replay a graph if possible, and return the result of `python` or `captured`.

        `python` runs the computation from Python. `captured` may also draw from `generators`. Before each replay,
        `load` copies its inputs to fixed addresses."""
        if key is None or self.why:
            return python()
        if key.ranks not in self._captures and self._warm_ups[key.ranks] < WARM_UP:
            self._warm_ups[key.ranks] += 1
            with self._graphs.warming_up():
                return self._checked(python)
        load()
        if key.ranks not in self._captures and not self._capture(key, captured, generators):
            return python()
        replay, result = self._captures[key.ranks]
        replay()
        return result

    def _number(self, kind: Hashable | None, limited: bool) -> int:
        """The number of a kind, or 0 if the computation must run from Python."""
        if kind is None:
            self._log("a batch has parts on the host, or that cannot be copied")
            return 0
        if limited and kind not in self._numbers and len(self._numbers) >= MOST:
            self._log(f"there are more than {MOST} kinds of batches")
            return 0
        number = self._numbers.setdefault(kind, len(self._numbers) + 1)
        if number in self._reads and (changed := self._reads[number].changed()):
            self._log(f"{changed!r} of {type(self._algo).__name__}, which its update reads, changes")
            return 0
        return number

    def _capture(self, key: Key, captured: Captured, generators: Generators) -> bool:
        """Capture a computation, and return whether all ranks succeeded. After a failed capture on any rank, no rank
        captures these computations any more."""
        why, reads, results, algo = "", Reads(self._algo), list[Any](), self._algo
        recorder = reads.recorder()
        try:
            replay = self._graphs.capture(lambda: results.append(captured(recorder)), generators)
            self._captures[key.ranks] = replay, results[0]
            if changed := reads.changed():
                why = f"an update changes {changed!r} of {type(algo).__name__}"
        except RunError:
            raise
        except (RuntimeError, TypeError, AttributeError) as e:  # TypeError, AttributeError: a batch lacks a field.
            why = " ".join(str(e).split())[:300]
        if algo.communicator.all_reduce_min(int(not why)):
            self._reads[key.number] = reads
            return True
        reads.restore()  # The attributes are restored, because the computation runs again from Python.
        self._stop(why)
        say_once(self._line(self.why))
        return False

    def _checked(self, python: Work) -> Any:
        """Run the computation from Python. If the computation changes plain Python values of the agent or of its
        network, stop capturing."""
        before = numbers_of(self._algo)
        result = python()
        after = numbers_of(self._algo)
        changed = next((name for name, value in before.items() if after.get(name) != value), "")
        if not self._algo.communicator.all_reduce_min(int(not changed)):
            self._stop(changed and f"an update changes {changed}")
        return result

    def _stop(self, why: str) -> None:
        self.why = why or "another rank could not capture them"
        self.close()
        self._log(self.why)

    def close(self) -> None:
        """Free the graphs. NCCL's communicator cannot be destroyed before the graphs that contain its operations are
        freed."""
        self._captures.clear()

    def _log(self, why: str) -> None:
        if why not in self._logged:
            logger.info(self._line(why))
        self._logged.add(why)

    def _line(self, why: str) -> str:
        return f"{self._what} are not captured as CUDA graphs, Python runs for each of them: {why}"
