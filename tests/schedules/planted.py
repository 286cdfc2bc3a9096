"""Faults that are inserted into accel_rl's code, to measure how many simulated orders of events are needed to find
them."""

import inspect
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from accel_rl.checkpoints import checkpoint, segment_store
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.distributed.central import Central
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.shared_reduce import SharedMemoryMean
from accel_rl.files import durable_files
from accel_rl.gorila import global_replay
from accel_rl.gorila.global_replay import GlobalReplay, RemoteReplay, ReplayBatch
from accel_rl.gorila.shard import Shard, Snapshot, Version
from accel_rl.gorila.sharded_sync import ShardedSync
from accel_rl.machine.memory_order import OrderedWords
from accel_rl.samplers.inference.threads import InferenceThreads
from accel_rl.samplers.workers.channel import _LINE, ServerSide, WorkerSide
from accel_rl.samplers.workers.pool import WorkerPool
from accel_rl.training.concurrent import Concurrent
from tests.schedules.learning import SimulatedLocks
from tests.schedules.world import World


@dataclass(frozen=True)
class Planted:
    """A function with a fault, which replaces a function of accel_rl."""

    kind: str
    """Kind of the simulation that should find the fault: sampling, asynchronous or synchronous."""
    text: str
    owner: Any
    name: str
    function: Callable[..., Any]
    weak: bool = False
    """Whether only weakly ordered memory reveals the fault."""

    def planted(self) -> AbstractContextManager[Any]:
        """Return a context manager in which the faulty function replaces the original."""
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
    word = group * _LINE
    steps, request = self._step[worker], self._request[worker]
    request[word] += n
    steps[word + 1] = request[word]
    steps[word] = step_index - request[word] + n
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


def _begin_without_the_last_wait(self: InferenceThreads, T: int, serve: Callable[[int, int], None]) -> None:
    pool, stop = self._pool, self._stop

    def play(g: int) -> None:
        for t in range(T):
            if not pool.wait_alone(g, stop.is_set):
                return
            serve(t, g)

    futures = [thread.submit(play, g) for g, thread in enumerate(self._threads)]
    self._rollouts.append(futures)
    for future in futures:
        future.add_done_callback(lambda future: pool.wake())


_attach = ServerSide.attach


def _attach_in_the_wrong_order(self: ServerSide, worker: int, event: Any, control: Any) -> None:
    for g in range(self.groups):
        self._answer[worker][g * _LINE] = 0
    _attach(self, worker, event, control)


def _load_without(name: str) -> Callable[..., None]:
    load = Concurrent.load_state_dict

    def load_state_dict(self: Concurrent, state: dict[str, Any]) -> None:
        load(self, {**state, name: [0] if name == "owed" else []})

    return load_state_dict


def _take_any(self: ShardedSync, shard: int, pull: Any) -> None:
    pulled = self._calls.answer(shard, pull.call)
    if pulled is not None and pulled.parameters is not None:
        self._copy(shard, pulled, pull.number)


_restore = Shard.restore


def _restore_in_the_same_epoch(self: Shard, snapshot: Snapshot) -> Version:
    epoch = self.version.epoch
    version = _restore(self, snapshot)
    self.version = version._replace(epoch=epoch)
    return self.version


def _sample_and_wait(self: RemoteReplay, N: int) -> Any:
    while True:
        self._drawn.append((N, self._replay().sample.remote(N)))
        self._size, batch = self._answer(self._drawn.popleft()[1]) or (0, {})
        if batch and self._size >= self._start:
            return ReplayBatch(**{name: torch.from_numpy(x) for name, x in batch.items()})
        global_replay.time.sleep(0.05)


def _append_to_any_life(self: GlobalReplay, member: int, life: int, rollout: Any) -> int:
    _, part = self._parts.setdefault(member, (life, self._replay_config.build()))  # type: ignore[call-arg]
    part.append(rollout)
    return self.size()


def _edited(function: Callable[..., Any], *edits: tuple[str, str]) -> Callable[..., Any]:
    """Return a copy of a function, with (old text, new text) replaced in its source."""
    text = textwrap.dedent(inspect.getsource(function))
    for old, new in edits:
        assert text.count(old) == 1, f"{function.__qualname__} has no {old}"
        text = text.replace(old, new)
    names = dict(function.__globals__)
    exec(text, names)
    edited: Callable[..., Any] = names[function.__name__]
    return edited


def _save(*edits: tuple[str, str]) -> tuple[type, str, Callable[..., Any]]:
    return Checkpoints, "save", _edited(Checkpoints.save, *edits)


_RENAME = "os.rename(temporary, final)"
_PARENT = "sync_folder(self.folder.parent)"
_NOT_SYNCED = _edited(durable_files.write_synced, ("os.fsync(f.fileno())", "..."))


def _put(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)


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
    "group": Planted(
        "threads", "a thread does not wait for its group", ServerSide, "wait_alone", lambda *_: True
    ),
    "last": Planted(
        "threads", "a thread does not wait for the last step", InferenceThreads, "begin", _begin_without_the_last_wait
    ),
    "attach": Planted(
        "threads",
        "a new worker's answers are reset before its requests",
        ServerSide,
        "attach",
        _attach_in_the_wrong_order,
    ),
    "early": Planted(
        "periods", "a period does not wait for its updates", Concurrent, "_await", lambda self, training: None
    ),
    "owed": Planted(
        "periods", "a resumed period forgets its skipped steps", Concurrent, "load_state_dict", _load_without("owed")
    ),
    "staged": Planted(
        "periods", "a resumed period forgets its rollouts", Concurrent, "load_state_dict", _load_without("staged")
    ),
    "newest": Planted("server", "an older answer replaces a newer one", ShardedSync, "_take", _take_any),
    "epoch": Planted(
        "server", "a restored shard has the old epoch", Shard, "restore", _restore_in_the_same_epoch
    ),
    "life": Planted(
        "replay", "a member's new process continues its rollouts", GlobalReplay, "append", _append_to_any_life
    ),
    "wait": Planted(
        "replay", "members wait for a replay that they must fill", RemoteReplay, "sample", _sample_and_wait
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
    "bytes": Planted("disk", "a checkpoint's files are not synced", checkpoint, "write_synced", _NOT_SYNCED),
    "names": Planted("disk", "the files' names are not synced", *_save(("sync_folder(temporary)", "...")), True),
    "name": Planted("disk", "a checkpoint's name is not synced", *_save(("sync_folder(self.folder)", "..."))),
    "rename": Planted(
        "disk", "a checkpoint is renamed before the names of its files are synced",
        *_save((_RENAME, "..."), ("sync_folder(temporary)", f"{_RENAME}; sync_folder(final)")), True,
    ),
    "place": Planted(
        "disk", "a checkpoint is written in place",
        *_save(('self.folder / f".writing-{os.getpid()}-{env_steps}"', "final"), (_RENAME, "..."),
               ("self._remove(final)", "...")),
    ),
    "removed": Planted(
        "disk", "old checkpoints are removed before the new one has its name",
        *_save(("self._remove(final)", "[self._remove(self.path(s)) for s in self.steps()[: 1 - self.keep or None]]")),
    ),
    "folders": Planted(
        "disk", "the segments' folder is synced after the checkpoint's name",
        *_save((_PARENT, "..."), (_RENAME, f"{_RENAME}; {_PARENT}")), True,
    ),
    "segment": Planted("disk", "a segment is not synced", segment_store, "write_durably", _put),
    "held": Planted(
        "disk", "the segments of older checkpoints are removed", Checkpoints, "_collect",
        _edited(Checkpoints._collect, ("self.steps())", "self.steps()[-1:])")),
    ),
    "swap": Planted(
        "disk", "a file is replaced before its bytes are synced", durable_files, "write_synced", _NOT_SYNCED
    ),
}  # fmt: skip
