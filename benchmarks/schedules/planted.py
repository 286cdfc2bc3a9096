"""Faults planted into the real code, to measure after how many schedules each is found."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from torch import Tensor

from accel_rl.distributed.central import Central
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.shared_reduce import SharedMemoryMean
from accel_rl.samplers.workers.channel import _LINE, ServerSide, WorkerSide
from accel_rl.samplers.workers.pool import WorkerPool
from accel_rl.system.memory_order import OrderedWords
from benchmarks.schedules.learning import SimulatedLocks
from benchmarks.schedules.world import World


@dataclass(frozen=True)
class Planted:
    """A `Planted` fault replaces a function of the real code."""

    kind: str
    """Kind of the schedules that should find the fault: sampling, asynchronous or synchronous."""
    text: str
    owner: Any
    name: str
    function: Callable[..., Any]
    weak: bool = False
    """Whether only weakly ordered memory shows the fault."""

    def planted(self) -> AbstractContextManager[Any]:
        """Return a context manager in which the fault is in the code."""
        return mock.patch.object(self.owner, self.name, self.function)


def _next_loses_wakes(self: WorkerSide) -> tuple[int, int] | None:
    while (g := self._due()) is None:
        self._event.clear()
        for fd, _ in self._poll.poll():
            if fd != self._event.read_fd:
                return None
    self._last = g
    return g, self._step[g * _LINE] + self._answer[g * _LINE]


_next = WorkerSide.next


def _next_answers(self: WorkerSide) -> tuple[int, int] | None:
    asked = _next(self)
    if asked is not None:
        self._answer[asked[0] * _LINE] += 1
        self._server.set()
    return asked


def _release_too_early(self: ServerSide, worker: int, group: int, step_index: int, n: int = 1) -> None:
    at = group * _LINE
    steps, request = self._step[worker], self._request[worker]
    request[at] += n
    steps[at + 1] = request[at]
    steps[at] = step_index - request[at] + n
    self._events[worker].set()


_join = WorkerPool.join


def _join_at_once(self: WorkerPool) -> list[int]:
    _join(self)
    return []


def _plain_words(self: OrderedWords, words: Any, fence: Callable[[], None]) -> None:
    self._words, self._fence = words, lambda: None


def _publish_first(self: Central, k: int, parameters: Tensor, state: dict[str, Any], updates: int = 0) -> None:
    spare = self.spare(k)
    self.publish_spare(k, {n: v for n, v in state.items() if not isinstance(v, Tensor)}, updates)
    spare["parameters"].copy_(parameters)
    for name, value in state.items():
        if isinstance(value, Tensor):
            spare[name].copy_(value)


_publish = Central.publish


def _publish_twice(self: Central, k: int, parameters: Tensor, state: dict[str, Any], updates: int = 0) -> None:
    _publish(self, k, parameters, state, updates)
    if updates and self.version(k) % 5 == 0:
        _publish(self, k, parameters, state, updates)


def _two_owners(self: SimulatedLocks, i: int) -> bool:
    self._world.point()
    self._world.receive(self._views[i])
    return True


def _keep_state(self: LockedChunks, k: int, is_held: bool = False) -> None:
    self._states[k] = self.central.version(k)


_meet = SharedMemoryMean._meet


def _meet_once(self: SharedMemoryMean) -> None:
    self._meetings = getattr(self, "_meetings", 0) + 1
    if self._meetings % 2:
        _meet(self)


def _await_less(self: SharedMemoryMean, turns: np.ndarray, turn: int) -> None:
    _await(self, turns, turn - 1)


_await = SharedMemoryMean._await
FAULTS = {
    "fence": Planted("sampling", "the counters have no fences", OrderedWords, "__init__", _plain_words, True),
    "wake-up": Planted(
        "sampling", "the worker clears its event after it has read the counters", WorkerSide, "next", _next_loses_wakes
    ),
    "answer": Planted("sampling", "the worker answers before its step", WorkerSide, "next", _next_answers),
    "release": Planted(
        "sampling", "a request is stored before its step index", ServerSide, "release", _release_too_early
    ),
    "drop": Planted(
        "sampling", "a lost worker's part stays in the rollout", WorkerPool, "absent", lambda self: []
    ),
    "join": Planted(
        "sampling", "a new worker joins without its first observation", WorkerPool, "join", _join_at_once
    ),
    "torn": Planted("asynchronous", "a version is published before its data", Central, "publish", _publish_first),
    "twice": Planted("asynchronous", "some pushes count twice", Central, "publish", _publish_twice),
    "owners": Planted("asynchronous", "a lock has two owners", SimulatedLocks, "try_acquire", _two_owners),
    "state": Planted(
        "asynchronous", "a rank steps with its own optimizer state", LockedChunks, "_read_state", _keep_state
    ),
    "barrier": Planted("synchronous", "the second barrier is missing", SharedMemoryMean, "_meet", _meet_once),
    "turn": Planted("synchronous", "the barrier waits for one turn less", SharedMemoryMean, "_await", _await_less),
    "order": Planted(
        "synchronous", "the barrier has no fence", World, "fence", lambda self: None, True,
    ),
}  # fmt: skip
