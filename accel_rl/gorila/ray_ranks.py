"""The ranks of a synchronous run on a Ray cluster (`--cluster ray`) run in Ray actors, which the driver starts."""

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from accel_rl.gorila.ray_session import check_ray, connected
from accel_rl.machine import hardware
from accel_rl.planning.plan import RunPlan
from accel_rl.ranks import local_ranks
from accel_rl.ranks.group import RankGroup, train_with_restarts
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training.evaluation import Result
from accel_rl.training.observers import Observers

Strategy = Literal["PACK", "SPREAD"]
PLACE_S = 60.0  # The cluster must have room for all ranks within PLACE_S seconds.
START_S = 120.0  # The ranks' Ray actors must start within START_S seconds.
POLL_S = 0.1  # Each rank is polled every POLL_S seconds.
SETTLE_S = 40.0  # Ray detects a lost node by its heartbeats within `SETTLE_S` seconds.


def train(config: Resolved, ray: Any, run: RunFolder, strategy: Strategy = "PACK") -> Result:
    """Train from the run's newest checkpoint, or from the beginning if there is none. Raises ConfigError, or a RunError
    that names the failed rank.

    `ray` is the module ray, connected to a cluster. `run` is an existing folder on a file system that all nodes share.
    With the `strategy` PACK, ranks fill one node after another; with SPREAD, they are distributed over all nodes. Each
    rank has its own GPU if the cluster has enough GPUs. If a rank is lost, all ranks end and restart from the newest
    checkpoint, up to --distributed.max-restarts times.
    """
    check(config)
    size = config.distributed.size
    return train_with_restarts(
        config, run, None, lambda _: RankGroup(run, RayStarter(config, ray, run, strategy), size)
    )


def launch(
    config: Resolved, plan: RunPlan, run: RunFolder, state: dict[str, Any] | None, objects: Observers | None
) -> Result:
    """Train on the Ray cluster of --address, or start Ray on this machine and train there."""
    with connected(config.address, hardware.usable_cores(config.sampler.cores)) as ray:
        return train(config, ray, run)


def check(config: Resolved) -> None:
    """Raise ConfigError if Ray is not installed, and for settings that ranks on Ray do not support."""
    if config.distributed.update != "all-reduce":
        raise ConfigError(f"--update {config.distributed.update}: must be all-reduce for ranks on a Ray cluster")
    if config.distributed.gpus:
        raise ConfigError(f"--gpus {config.distributed.gpus}: Ray assigns GPUs to ranks; leave it out")
    check_ray()


class RayStarter:
    """A `RayStarter` starts a Ray actor for each rank, inside one placement group. If a rank is lost, all ranks end."""

    settle_s = SETTLE_S

    def __init__(self, config: Resolved, ray: Any, run: RunFolder, strategy: Strategy):
        self._config = config
        self._ray = ray
        self._strategy = strategy
        self._setup = {"run": str(run.path.absolute()), "config": config.to_dict(), "by_environment": True}
        self._size = config.distributed.size
        self._group: Any = None
        self._actors: list[Any] = []

    def start(self, ranks: Iterable[int]) -> "list[RayRank]":
        """Start all ranks. Raises RunError if the Ray cluster does not have enough free resources within PLACE_S
        seconds."""
        assert list(ranks) == list(range(self._size))
        try:
            return self._start()
        except self._ray.exceptions.RayError as e:
            raise RunError(f"the ranks cannot start on the Ray cluster: {' '.join(str(e).split())[:300]}") from e

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)

    def _start(self) -> "list[RayRank]":
        gpus = self._gpus()
        places = self._placed(gpus)
        nodes = [node for node, _ in places]
        host, port = self._ray.get(self._actors[0].listen.remote(), timeout=START_S)
        pids = []
        for rank, actor in enumerate(self._actors):
            of_node = [r for r, node in enumerate(nodes) if node == nodes[rank]]
            environment = {
                "RANK": rank,
                "WORLD_SIZE": self._size,
                "LOCAL_RANK": of_node.index(rank),
                "LOCAL_WORLD_SIZE": len(of_node),
                "MASTER_ADDR": host,
                "MASTER_PORT": port,
                "ACCEL_RL_LAUNCHER": "Ray",
                **({"ACCEL_RL_OWN_GPU": 1} if gpus else {}),
            }
            setup = {**self._setup, "rank": rank}
            pids.append(actor.start.remote(setup, {name: str(value) for name, value in environment.items()}))
        started = enumerate(self._ray.get(pids, timeout=START_S))
        return [RayRank(self._ray, r, self._actors[r], pid, places[r][1]) for r, pid in started]

    def _gpus(self) -> int:
        """Return the number of GPUs per rank, 0 or 1. Raises ConfigError if the Ray cluster has fewer CPUs or GPUs than
        ranks."""
        has = self._ray.cluster_resources()
        if has.get("CPU", 0) < self._size:
            raise ConfigError(f"--ranks {self._size}: the Ray cluster has {has.get('CPU', 0):g} CPUs, a rank needs one")
        if self._config.device.startswith("cuda") and has.get("GPU", 0) < self._size:
            allowed = f"the Ray cluster has {has.get('GPU', 0):g} GPUs for {self._size} ranks; use cpu"
            raise ConfigError(f"--device {self._config.device}: {allowed}")
        return int(self._config.device != "cpu" and has.get("GPU", 0) >= self._size)

    def _placed(self, gpus: int) -> list[tuple[str, str]]:
        """Start an actor for each rank, and return (id, address) of each rank's node. Ranks on the same node have
        consecutive numbers."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        bundle = {"CPU": 1.0, **({"GPU": 1.0} if gpus else {})}
        self._group = self._ray.util.placement_group([bundle] * self._size, strategy=self._strategy)
        if not self._group.wait(PLACE_S):
            raise RunError(f"the Ray cluster has no room for {self._size} ranks within {PLACE_S:g} s")
        of_bundle = self._ray.util.placement_group_table(self._group)["bundles_to_node_id"]
        addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes()}
        order = list(of_bundle.values())
        bundles = sorted(of_bundle, key=lambda i: order.index(of_bundle[i]))
        remote = self._ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0, max_task_retries=0)(RankActor)
        for i in bundles:
            place = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=i)
            self._actors.append(remote.options(scheduling_strategy=place).remote(addresses[of_bundle[i]]))
        return [(of_bundle[i], addresses[of_bundle[i]]) for i in bundles]


@dataclass(frozen=True, slots=True)
class RankState:
    """A `RankState` contains the exit code of a rank's process, and the process's output since the last poll."""

    code: int | None  # The exit code, negative if a signal ended the process; None while it runs
    output: bytes
    ending: str  # One line of text about the end of the rank's process
    reply: dict[str, Any] = field(default_factory=dict)


class RankActor:
    """`RankActor` is a Ray actor that starts a process for one rank. The rank does not run in the actor itself, because
    signals need a main thread and a collective may hang. The rank's process ends with the actor."""

    def __init__(self, address: str):
        self._address = address
        self._socket: socket.socket | None = None

    def listen(self) -> tuple[str, int]:
        """Open the port of the ranks' torch store, which listens only on the node's address. Return (address, port)."""
        self._socket = socket.create_server((self._address, 0))
        return self._address, self._socket.getsockname()[1]

    def start(self, setup: dict[str, Any], environment: dict[str, str]) -> int:
        """Start the rank's process, and return its process id."""
        self._output, write = os.pipe()
        os.set_blocking(self._output, False)
        listening = None if self._socket is None else self._socket.fileno()
        # Ray sets OMP_NUM_THREADS to the CPUs of an actor, but a rank chooses its own number of threads.
        variables = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        fds = () if listening is None else (listening,)
        try:
            self._rank = local_ranks.start_rank(
                {**setup, "listening": listening}, fds, {**variables, **environment}, write
            )
        finally:
            os.close(write)
        return self._rank.pid

    def poll(self) -> RankState:
        """Return the state of the rank's process without blocking."""
        code, output = self._rank.code(), b""
        self._rank.poll()
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self._output, 65536):
                output += block
        if code is None:
            return RankState(None, output, "")
        return RankState(code, output, self._rank.ending(), self._rank.reply())

    def stop(self) -> None:
        """Request that the rank saves a checkpoint and ends."""
        if self._rank.code() is None:
            self._rank.stop()


class RayRank:
    """Through a `RayRank`, the driver controls a rank on a Ray cluster. The driver prints the rank's output on
    stderr."""

    def __init__(self, ray: Any, index: int, actor: Any, pid: int, address: str):
        """`actor` is a `RankActor` whose rank has started."""
        self.index = index
        self.pid = pid
        self._ray = ray
        self._actor = actor
        self._address = address
        self._poll = actor.poll.remote()
        self._state = RankState(None, b"", "")
        self._polled = time.monotonic()

    def code(self) -> int | None:
        return self._state.code

    def reply(self) -> dict[str, Any]:
        return self._state.reply

    def ending(self) -> str:
        return f"{self._state.ending} on {self._address}" if (self.code() or 0) < 0 else self._state.ending

    def stop(self) -> None:
        self._actor.stop.remote()

    def is_suspended(self) -> bool:
        return False  # Unknown: the process runs on another machine.

    def poll(self) -> None:
        """Read the answer to the last poll of the rank if it has arrived, and poll again."""
        if self.code() is None and time.monotonic() > self._polled + POLL_S:
            self._read(0.0)

    def settle(self, timeout_s: float) -> None:
        for _ in range(2):  # The driver polls the rank twice, because the first answer may be older than the failure.
            if self.code() is None:
                self._read(timeout_s)

    def kill(self) -> None:
        self._ray.kill(self._actor)

    def close(self) -> None:
        """Do nothing, because the rank ends with its actor."""

    def _read(self, timeout_s: float) -> None:
        ready, _ = self._ray.wait([self._poll], timeout=timeout_s)
        if not ready:
            return
        self._polled = time.monotonic()
        try:
            self._state = self._ray.get(self._poll)
        except self._ray.exceptions.RayActorError:
            self._state = RankState(-signal.SIGKILL, b"", f"rank {self.index} is gone: its actor or node was lost")
            return
        sys.stderr.write(self._state.output.decode(errors="replace"))
        sys.stderr.flush()
        if self.code() is None:
            self._poll = self._actor.poll.remote()
