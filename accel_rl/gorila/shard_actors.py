"""The shards of the parameter server as Ray actors, which the driver starts, saves and replaces."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from accel_rl.gorila.ray_session import START_S, start_named
from accel_rl.gorila.shard import Shard, Snapshot
from accel_rl.gorila.transport import ActorCall, ActorTransport, Method, ShardUnavailable
from accel_rl.processes.process import before_torch


class ShardActor:
    """The Ray actor of one shard. Ray executes the calls that all processes make to this actor one after another."""

    def __init__(self, shard: Shard):
        # `before_torch` configures the allocator to reuse the memory of earlier messages.
        before_torch()
        torch.set_num_threads(1)
        self._shard = shard

    def call(self, method: Method, *arguments: Any) -> Any:
        return getattr(self._shard, method)(*arguments)


class RayShards:
    """Starts a Ray actor for each shard, and stores the last snapshot of each shard. If a shard's process
    dies, the shard is restored from its snapshot in a new actor.

    Ray neither repeats calls to a shard nor restarts the shard's actor: a repeated push would update the parameters
    twice, and a restarted actor would begin with the initial parameters.
    """

    def __init__(self, ray: Any, shards: Sequence[Shard], run: str = "run"):
        """`shards` are copied to Ray actors, whose names begin with `run`."""
        self._ray = ray
        self._shards = list(shards)
        self.names = [f"{run}/shard-{i}" for i in range(len(shards))]
        self._asked: list[tuple[ActorCall, float] | None] = [None] * len(self.names)
        self._starting = set[int]()  # The shards that have not answered since their processes were started
        self.status = [shard.status() for shard in shards]
        """The last known (version, counts) of each shard"""
        self._snapshots = [shard.snapshot() for shard in shards]
        self._actors = [self._start(i) for i in range(len(shards))]

    def _start(self, i: int) -> Any:
        self._starting.add(i)
        return start_named(self._ray, ShardActor, self.names[i], self._shards[i], scheduling_strategy="SPREAD")

    def _call(self, i: int, method: Method) -> ActorCall:
        return ActorCall(self._ray, self.names[i], self._actors[i].call.remote(method))

    def transport(self) -> ActorTransport:
        return ActorTransport(self._ray, self.names)

    def save(self, timeout_s: float) -> list[Snapshot]:
        """Take a snapshot of each shard, and return the snapshots. For a shard that does not answer within timeout_s,
        return its previous snapshot."""
        deadline = time.monotonic() + timeout_s
        calls = [self._call(i, "snapshot") for i in range(len(self.names))]
        for i, call in enumerate(calls):
            try:
                self._snapshots[i] = call.result(max(0.0, deadline - time.monotonic()))
            except ShardUnavailable:
                continue
        return list(self._snapshots)

    def look(self, timeout_s: float) -> list[int]:
        """Poll the status of all shards without blocking. Replace each shard that is lost or has not answered for
        timeout_s (at least START_S while its process starts), and return the indices of the replaced shards."""
        dead, now = [], time.monotonic()
        for i in range(len(self.names)):
            asked = self._asked[i]
            if asked is None:
                self._asked[i] = (self._call(i, "status"), now)
                continue
            call, since = asked
            limit_s = max(timeout_s, START_S) if i in self._starting else timeout_s
            if not call.done() and now - since < limit_s:
                continue
            try:
                self.status[i] = call.result(0.0)
                self._starting.discard(i)
            except ShardUnavailable:
                self._replace(i)
                dead.append(i)
            self._asked[i] = None
        return dead

    def refresh(self, timeout_s: float) -> None:
        """Request a new status (version, counts) of each shard, and wait for the answers. A shard that does not answer
        keeps its old status."""
        self._asked = [None] * len(self.names)  # Answers to earlier calls of `status` are ignored.
        calls = [self._call(i, "status") for i in range(len(self.names))]
        for i, call in enumerate(calls):
            with suppress(ShardUnavailable):
                self.status[i] = call.result(timeout_s)

    def _replace(self, i: int) -> None:
        """Start a new Ray actor for shard i from the shard's last snapshot."""
        self._ray.kill(self._actors[i])
        # The shard is restored before its actor starts, so that no push arrives before the restore.
        self._shards[i].restore(self._snapshots[i])
        self._actors[i] = self._start(i)

    def close(self) -> None:
        """End the shards' actors."""
        for actor in self._actors:
            self._ray.kill(actor)
