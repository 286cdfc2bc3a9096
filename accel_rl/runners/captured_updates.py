"""Updates on a GPU as CUDA graphs: whole phases, replayed without Python."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from accel_rl.algos.base import Algorithm
from accel_rl.kernels.cuda_graph import WARM_UP, CudaGraphs, Replay
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.samplers.inference.capturable import module_refusal
from accel_rl.system.hardware import say_once

Updates = Callable[[int], Iterable[dict[str, Tensor]]]
"""(number of updates) -> their metrics: makes them, one after the other."""


class _Phase(NamedTuple):
    replay: Replay
    metrics: UpdateMetrics  # in the graph's memory: of its last replay


class CapturedUpdates:
    """Makes the updates of a phase: the first ones from Python, later ones by replaying a graph of the whole phase.

    A phase includes its draws from a replay, losses, backward passes, norms, optimizer steps and priorities. A graph is
    kept for each `Algorithm.phase_key` and number of updates. The results are bitwise those of the same updates from
    Python. What is not captured is noted once, with the reason.
    """

    def __init__(self, algo: Algorithm, updates: Updates, enabled: bool, note: Callable[[str], None]):
        """note: writes to events.log."""
        self._algo, self._updates, self._note = algo, updates, note
        self._graphs = CudaGraphs(algo.device)
        self._phases: dict[Hashable, _Phase] = {}
        self._made: dict[Hashable, int] = {}  # phases made from Python
        self._noted: set[str] = set()
        why = refusal(algo) if enabled else "--no-capture-updates"
        self.enabled = not why
        if why:
            self._refuse(why)

    def make(self, updates: int) -> list[UpdateMetrics]:
        """Make so many updates; returns their metrics. Does not wait for the GPU."""
        phase_key = self._algo.phase_key()
        if not self.enabled or phase_key is None or not updates:
            if self.enabled and updates:
                self._refuse(f"{type(self._algo).__name__} decides on the host in this phase")
            return self._from_python(updates)
        key = updates, phase_key
        if key not in self._phases:
            self._made[key] = self._made.get(key, 0) + 1
            if self._made[key] <= WARM_UP:
                with self._graphs.warming_up():
                    return self._from_python(updates)
            try:
                self._phases[key] = self._captured(updates)
            except RuntimeError as e:
                self.enabled = False
                self._phases.clear()
                why = " ".join(str(e).split())[:300]
                self._refuse(why)
                say_once(f"updates are not captured as CUDA graphs, Python runs for each of them: {why}")
                return self._from_python(updates)
        phase = self._phases[key]
        phase.replay()
        return [replace(phase.metrics, sums=phase.metrics.sums.clone())]  # the next replay overwrites them

    def _from_python(self, updates: int) -> list[UpdateMetrics]:
        return [UpdateMetrics.of(metrics) for metrics in self._updates(updates)]

    def _captured(self, updates: int) -> _Phase:
        found: list[UpdateMetrics] = []

        def work() -> None:
            metrics = self._from_python(updates)
            total = torch.stack([m.sums for m in metrics]).sum(0)
            found.append(UpdateMetrics(metrics[0].names, total, updates))

        replay = self._graphs.capture(work, self._algo.generators())
        return _Phase(replay, found[0])

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
