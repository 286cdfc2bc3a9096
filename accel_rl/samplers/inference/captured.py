"""Acting again as before: compiled calls in a row, without the Python between them."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from accel_rl.agents.base import Agent, acts_by
from accel_rl.data.rollout import Rollout
from accel_rl.kernels import native
from accel_rl.kernels.activation_cache import ActivationCache
from accel_rl.kernels.call_graph import Recording


class _Region(NamedTuple):
    """RnnState that is another one's at every step t: from begin + t * step, so many bytes."""

    begin: int
    step: int
    bytes: int

    @classmethod
    def of(cls, x: Tensor, b: slice, rows: int = 1) -> "_Region":
        """Environments b of x [T, B, ...], in the rows from t."""
        size, n = x.itemsize, b.stop - b.start
        step = x.stride(0) * size
        return cls(x.data_ptr() + b.start * x.stride(1) * size, step, (rows - 1) * step + n * x.stride(1) * size)


class _Act(NamedTuple):
    """What was recorded; what the agent notes, with its dtype."""

    recording: Recording
    calls: Any
    noted: dict[str, torch.dtype]


class CapturedInference:
    """For each group of environments, on the host: what an agent's `act` and all around it called at one step, from
    the group's frames to its actions, and what is made again of it at the other steps.

    Like a CUDA graph: the numbers are the same, what Python and torch do between the layers is gone, and no thread
    waits for the interpreter. An agent that has more to do than compute (`Agent.capturable`), or that needs more than
    what is compiled here, is called at every step.
    """

    def __init__(self, groups: Sequence[slice], kept: ActivationCache | None):
        self._groups, self._kept = groups, kept
        self._recorded: dict[int, _Act] = {}
        self._others: dict[int, set[str]] = {}  # of groups whose agent cannot be recorded: what it does beside
        self._of: Hashable | None = None
        self._served: set[int] = set()  # groups, since the agent is another
        self._rollouts: dict[int, tuple[int, Rollout, Tensor]] = {}  # by buffer: its number, its uniform numbers
        self._moved: dict[int, int] = {}  # the rollout's number that a group's calls are set to
        self._count = 0

    def begin(self, buffer: int, rollout: Rollout, uniform: Tensor) -> None:
        """That rollout follows."""
        self._count += 1
        self._rollouts[buffer] = self._count, rollout, uniform

    def play(self, agent: Agent, settings: Hashable) -> None:
        """That agent plays the rollouts that follow. settings: whatever else its actions depend on."""
        how = None if native.compiled() is None else acts_by(agent, settings)
        if how != self._of:
            self._of = how
            for of_agent in (self._recorded, self._others, self._served):
                of_agent.clear()

    def again(self, buffer: int, t: int, group: int) -> bool:
        """Act for the group at step t of the buffer's rollout, if it has been recorded how."""
        calls = self.calls(buffer, group)
        if calls is None:
            return False
        calls.run(t)
        self.made(group, 1)
        return True

    def calls(self, buffer: int, group: int) -> Any | None:
        """To be run at the steps of the buffer's rollout, if it has been recorded how."""
        if group not in self._recorded:
            return None
        act = self._recorded[group]
        number, rollout, uniform = self._rollouts[buffer]
        if self._moved.get(group) != number:
            self._moved[group] = number
            act.calls.move([(r.begin, r.step) for r in self._regions(group, rollout, uniform, act)])
        return act.calls

    def made(self, group: int, times: int) -> None:
        """The group's calls, so often."""
        if self._kept is not None:
            self._kept.written(self._recorded[group].recording.places * times)

    @contextmanager
    def recording(self, buffer: int, t: int, group: int) -> Iterator[None]:
        """While the agent acts for the group at step t, from the second time on."""
        module = native.compiled()
        if self._of is None or module is None or group in self._others or group not in self._served:
            self._served.add(group)
            yield
            return
        _, rollout, uniform = self._rollouts[buffer]
        rollout.observations(t, b=self._groups[group])  # what it looks up is then there
        with Recording(module) as recording:
            yield
        if recording.others:
            self._others[group] = recording.others
            return
        act = _Act(recording, recording.calls(), {name: x.dtype for name, x in rollout.recorded.items()})
        act.calls.settle([(r.begin + t * r.step, r.bytes) for r in self._regions(group, rollout, uniform, act)])
        self._moved.pop(group, None)
        self._recorded[group] = act

    def _regions(self, group: int, r: Rollout, uniform: Tensor, act: _Act) -> list[_Region]:
        b = self._groups[group]
        for name, dtype in act.noted.items():
            if name not in r.recorded:  # its first rollout in this memory
                r.recorded.setdefault(name, torch.zeros(r.T, r.B, dtype=dtype))
        regions = [_Region.of(r.frames, slice(0, r.B), r.stack)]  # whole rows: an index says which environment's
        regions += [_Region.of(x, b) for x in (r.age, uniform, r.action)]
        regions += [_Region.of(r.recorded[name], b) for name in act.noted]
        if self._kept is not None:
            kept = (self._kept.outputs(layer) for layer, _ in act.recording.places)
            regions += [_Region.of(x.unflatten(0, (r.T, r.B)), b) for x in kept]
        return regions
