"""Updates on a GPU as CUDA graphs: whole phases, replayed without Python."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from accel_rl.algos.algorithm import Algorithm
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.speed.capturable import module_refusal
from accel_rl.speed.cuda_graph import WARM_UP, CudaGraphs, Replay
from accel_rl.system.errors import RunError
from accel_rl.system.hardware import say_once

Updates = Callable[[int, bool], Iterable[dict[str, Tensor]]]
"""(number of updates, whether they begin a phase) -> their metrics: makes them, one after the other."""


class _Part(NamedTuple):
    replay: Replay
    metrics: UpdateMetrics  # in the graph's memory: of its last replay


class CapturedUpdates:
    """Makes the updates of phases, part by part: the first ones from Python, later ones by replaying a graph of a part.

    A graph includes advantages or draws from a replay, losses, backward passes, norms, optimizer steps and priorities.
    One is kept for each `Algorithm.phase_key` and number of updates. The results are bitwise those of the same updates
    from Python. What is not captured is noted once, with the reason.

    NCCL requires that all ranks capture a collective or none, and that they launch the graphs of one such capture
    together. The keys of ranks differ, for example by their replays' pools of final frames. So before each part the
    ranks exchange numbers of their keys, and a graph is kept for each combination.
    """

    def __init__(self, algo: Algorithm, updates: Updates, enabled: bool, note: Callable[[str], None]):
        """note: writes to events.log."""
        self._algo, self._updates, self._note = algo, updates, note
        self._graphs = CudaGraphs(algo.device)
        self._captures: dict[Hashable, _Part] = {}  # by `_key`
        self._made: dict[Hashable, int] = {}  # parts made from Python, by `_key`
        self._numbers: dict[Hashable, int] = {}  # from 1, of this rank's keys
        self._prepares = type(algo).prepare is not Algorithm.prepare
        self._noted: set[str] = set()
        why = refusal(algo) if enabled else "--no-capture-updates"
        self.enabled = not why
        if why:
            self._refuse(why)

    def make(self, updates: int, begins: bool) -> list[UpdateMetrics]:
        """Make so many updates, which may begin a phase; returns their metrics. Does not wait for the GPU."""
        begins &= self._prepares
        if not self.enabled or not updates:
            return self._from_python(updates, begins)
        key = self._key(updates, begins)
        if key is None:
            self._refuse(f"{type(self._algo).__name__} decides on the host in this phase")
            return self._from_python(updates, begins)
        if key not in self._captures:
            self._made[key] = self._made.get(key, 0) + 1
            if self._made[key] <= WARM_UP:
                with self._graphs.warming_up():
                    return self._from_python(updates, begins)
            if not self._capture(key, updates, begins):
                return self._from_python(updates, begins)
        part = self._captures[key]
        part.replay()
        return [replace(part.metrics, sums=part.metrics.sums.clone())]  # the next replay overwrites them

    def _key(self, updates: int, begins: bool) -> Hashable | None:
        """Return what the next part depends on, on all ranks that share its batches; None if a host decides."""
        phase_key, communicator = self._algo.phase_key(), self._algo.communicator
        if communicator.size == 1:
            return None if phase_key is None else (updates, begins, phase_key)
        number = 0 if phase_key is None else self._numbers.setdefault(phase_key, len(self._numbers) + 1)
        numbers = communicator.all_gather(number)
        return (updates, begins, *numbers) if all(numbers) else None

    def _capture(self, key: Hashable, updates: int, begins: bool) -> bool:
        """Capture a part; returns whether all ranks could. If not, none captures from now on."""
        why = ""
        try:
            self._captures[key] = self._captured(updates, begins)
        except RunError:
            raise
        except RuntimeError as e:
            why = " ".join(str(e).split())[:300]
        if self._algo.communicator.all_reduce_min(int(not why)):
            return True
        self.enabled = False
        self.close()
        why = why or "another rank could not capture them"
        self._refuse(why)
        say_once(f"updates are not captured as CUDA graphs, Python runs for each of them: {why}")
        return False

    def close(self) -> None:
        """Free the graphs. NCCL's communicator cannot end before: its end waits for all graphs that use it."""
        self._captures.clear()

    def _from_python(self, updates: int, begins: bool) -> list[UpdateMetrics]:
        return [UpdateMetrics.of(metrics) for metrics in self._updates(updates, begins)]

    def _captured(self, updates: int, begins: bool) -> _Part:
        found: list[UpdateMetrics] = []

        def work() -> None:
            metrics = self._from_python(updates, begins)
            total = torch.stack([m.sums for m in metrics]).sum(0)
            found.append(UpdateMetrics(metrics[0].names, total, updates))

        replay = self._graphs.capture(work, self._algo.generators())
        return _Part(replay, found[0])

    def _refuse(self, why: str) -> None:
        if why not in self._noted:
            self._note(f"updates are not captured as CUDA graphs, Python runs for each of them: {why}")
        self._noted.add(why)


def refusal(algo: Algorithm) -> str | None:
    """Why an algorithm's updates are not captured; None if they may be."""
    cls = type(algo)
    if not cls.__dict__.get("capturable", False):
        return f"{cls.__name__} does not say capturable = True"
    return module_refusal(algo.agent.model)
