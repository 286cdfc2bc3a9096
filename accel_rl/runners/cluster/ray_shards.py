"""The shards of a parameter server as Ray actors, which the driver starts, saves and replaces."""

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch

from accel_rl.distributed.parameter_server.messages import Snapshot
from accel_rl.distributed.parameter_server.shard import Shard
from accel_rl.distributed.parameter_server.transport import Method, ShardUnavailable, Transport
from accel_rl.runners.cluster.arrays import with_arrays, with_tensors
from accel_rl.runners.cluster.ray_transport import RayTransport
from accel_rl.runners.cluster.session import NAMESPACE
from accel_rl.runners.cluster.shard_server import Endpoint, ShardServer
from accel_rl.runners.cluster.socket_transport import SocketTransport
from accel_rl.system.errors import RunError
from accel_rl.system.process import before_torch

Bulk = Literal["sockets", "ray"]
LOCATE_S = 10.0


class ShardActor:
    """What runs in an actor's process: a shard, one call after the other, by Ray or through sockets."""

    def __init__(self, shard: Shard, threads: int):
        import ray

        before_torch()  # memory of messages stays with the process
        torch.set_num_threads(threads)
        self._server = ShardServer(shard, ray.util.get_node_ip_address())

    def call(self, method: Method, *arguments: Any) -> Any:
        return with_arrays(self._server.call(method, *map(with_tensors, arguments)))

    def endpoint(self) -> Endpoint:
        """Return where the shard is called through sockets."""
        return self._server.endpoint

    def pid(self) -> int:
        return os.getpid()


def transport_to(ray: Any, names: Sequence[str], bulk: Bulk = "ray") -> Transport:
    """Return a transport to the shards that have these names, for a process that is connected to Ray.

    bulk: how calls travel: through sockets to the shards' actors, which Ray locates, or as Ray's calls and objects.
    """
    return RayTransport(ray, names) if bulk == "ray" else SocketTransport(names, partial(_locate, ray))


def _locate(ray: Any, name: str) -> Endpoint | None:
    try:
        return ray.get(ray.get_actor(name, namespace=NAMESPACE).endpoint.remote(), timeout=LOCATE_S)
    except (ValueError, ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        return None  # no actor of this name, or not any more


class RayShards:
    """Starts an actor for each shard. The driver keeps the last snapshot of each, for a shard whose process dies.

    Ray neither repeats a call nor restarts an actor: a repeated push would be a second update, and a restarted actor
    would have the parameters of its start.
    """

    def __init__(self, ray: Any, shards: Sequence[Shard], run: str = "run", threads: int = 1):
        """shards: with parameters on the host; they are copied to the actors. run: begins the actors' names.
        threads: torch's threads of each actor.
        """
        if any(shard.device.type != "cpu" for shard in shards):
            raise ValueError("shards in other processes have their parameters on the host")
        self._ray, self._shards, self._threads = ray, list(shards), threads
        self.names = [f"{run}/shard-{i}" for i in range(len(shards))]
        self._actor = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(ShardActor)
        self._snapshots = [shard.snapshot() for shard in shards]
        self._actors = [self._start(i) for i in range(len(shards))]
        self._calls = RayTransport(ray, self.names)  # Ray knows at once of an actor that is lost

    def _start(self, i: int) -> Any:
        return self._actor.options(name=self.names[i], namespace=NAMESPACE).remote(self._shards[i], self._threads)

    def _start_again(self, i: int, timeout_s: float) -> Any:
        """Start an actor with the name of a dead one, which Ray frees within moments. RunError."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._start(i)
            except ValueError as e:  # the name is taken
                if time.monotonic() > deadline:
                    raise RunError(f"{self.names[i]} cannot start again: {e}") from e
                time.sleep(0.05)

    def transport(self, bulk: Bulk = "ray") -> Transport:
        """Return a transport to the shards, for this process. Others call `transport_to` with `names`."""
        return transport_to(self._ray, self.names, bulk)

    def pids(self) -> list[int]:
        """Return the process of each shard."""
        return self._ray.get([actor.pid.remote() for actor in self._actors])

    def save(self, timeout_s: float) -> list[Snapshot]:
        """Take a snapshot of each shard; returns the last one of each. A shard that is gone keeps its last one."""
        calls = [self._calls.call(i, "snapshot") for i in range(len(self.names))]
        for i, call in enumerate(calls):
            try:
                self._snapshots[i] = call.result(timeout_s)
            except ShardUnavailable:
                continue
        return list(self._snapshots)

    def replace_dead(self, timeout_s: float) -> list[int]:
        """Start a new actor, from the last snapshot and in a new epoch, for each shard that is gone or has not answered
        within timeout_s; returns which."""
        calls, dead = [self._calls.call(i, "join", "") for i in range(len(self.names))], []
        for i, call in enumerate(calls):
            try:
                call.result(timeout_s)
            except ShardUnavailable:
                self._ray.kill(self._actors[i])
                self._shards[i].restore(self._snapshots[i])  # before it starts: no push comes between
                self._actors[i] = self._start_again(i, timeout_s)
                dead.append(i)
        return dead

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            self._ray.kill(actor)
