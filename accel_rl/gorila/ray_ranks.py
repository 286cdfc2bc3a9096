"""Run the ranks of a synchronous run on a Ray cluster (`--cluster ray`): the driver starts a Ray actor for each
rank."""

import io
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from accel_rl.gorila.ray_session import check_ray, connected
from accel_rl.machine import hardware
from accel_rl.planning.plan import RunPlan
from accel_rl.ranks import local_ranks
from accel_rl.ranks.group import RankProcess, train_with_restarts
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training.evaluation import Result
from accel_rl.training.observers import Observers

PLACE_S = 60.0  # The cluster must have room for all ranks within PLACE_S seconds.
START_S = 120.0  # The ranks' Ray actors must start within START_S seconds.
POLL_S = 0.1  # Each rank is polled every POLL_S seconds.


def train(config: Resolved, ray: Any, run: RunFolder, strategy: str = "PACK", env_steps: int | None = None) -> Result:
    """Train from the checkpoint at `env_steps`, or from the beginning. Raises ConfigError, or a RunError that names the
    failed rank.

    `ray` is the module ray, connected to a cluster. `run` is an existing folder on a file system that all nodes share.
    With the `strategy` PACK, ranks fill one node after another; with SPREAD, ranks are distributed over all nodes. Each
    rank has its own GPU if the cluster has enough GPUs. If a rank is lost, all ranks end and restart from the newest
    checkpoint, up to --distributed.max-restarts times.
    """
    return train_with_restarts(config, run, env_steps, partial(RayStarter, config, ray, run, strategy))


def launch(plan: RunPlan, run: RunFolder, state: dict[str, Any] | None, objects: Observers | None) -> Result:
    """Train on the Ray cluster of --address, or start Ray on this machine and train there."""
    config = plan.config
    with connected(config.address, hardware.usable_cores(config.sampler.cores)) as ray:
        return train(config, ray, run, env_steps=state["env_steps"] if state else None)


def check(config: Resolved) -> None:
    """Raise ConfigError if Ray is not installed."""
    check_ray()


class RayStarter:
    """Starts a Ray actor for each rank, inside one placement group. If a rank is lost, all ranks end."""

    settle_s = 40.0  # Ray detects a lost node within 40 s, by missing heartbeats.
    counters = None

    def __init__(self, config: Resolved, ray: Any, run: RunFolder, strategy: str, env_steps: int | None):
        """Raises ConfigError if the cluster has fewer cores than the run has ranks, or fewer GPUs for a run on GPUs."""
        self._ray, self._strategy = ray, strategy
        self._setup = {"run": str(run.path.absolute()), "config": config.to_dict(), "env_steps": env_steps}
        self._group: Any = None
        has, ranks = ray.cluster_resources(), config.distributed.size
        for name in ("CPU", "GPU") if config.device.startswith("cuda") else ("CPU",):
            if has.get(name, 0) < ranks:
                raise ConfigError(
                    f"--ranks {ranks}: the Ray cluster has {has.get(name, 0):g} {name}s, a rank needs one"
                )
        # Each rank gets a core, and a GPU if the cluster has enough GPUs.
        self._bundle = {"CPU": 1.0, "GPU": float(config.device != "cpu" and has.get("GPU", 0) >= ranks)}

    def start(self, ranks: Iterable[int]) -> "list[RayRank]":
        """Start all ranks. Raises RunError if the Ray cluster does not have enough free resources within PLACE_S
        seconds."""
        try:
            return self._start(len(list(ranks)))
        except self._ray.exceptions.RayError as e:
            raise RunError(f"the ranks cannot start on the Ray cluster: {' '.join(str(e).split())[:300]}") from e

    def _start(self, size: int) -> "list[RayRank]":
        """Start an actor in each resource bundle of a new Ray placement group, and a rank in each actor. Ranks on the
        same node have consecutive numbers."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self._group = self._ray.util.placement_group([self._bundle] * size, strategy=self._strategy)
        if not self._group.wait(PLACE_S):
            raise RunError(f"the Ray cluster has no room for {size} ranks within {PLACE_S:g} s")
        place = PlacementGroupSchedulingStrategy(self._group)
        remote = self._ray.remote(num_cpus=1, num_gpus=self._bundle["GPU"], scheduling_strategy=place)(RankActor)
        actors = [remote.remote() for _ in range(size)]
        places = self._ray.get([actor.place.remote() for actor in actors], timeout=START_S)
        placed = sorted(((*place, actor) for place, actor in zip(places, actors, strict=True)), key=lambda x: x[0])
        nodes = [node for node, *_ in placed]
        _, host, port, _ = placed[0]
        calls = []
        for rank, (node, _, _, actor) in enumerate(placed):
            of_node = nodes.count(node)
            setup = {"rank": rank, "size": size, "local_rank": rank - nodes.index(node), "local_size": of_node}
            setup["ranks_on_gpus"] = 1 if self._bundle["GPU"] else of_node  # With Ray, each rank sees only its own GPU.
            environment = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": host, "MASTER_PORT": port}
            calls.append(actor.start.remote(self._setup | setup, {k: str(v) for k, v in environment.items()}))
        pids = self._ray.get(calls, timeout=START_S)
        return [RayRank(self._ray, r, actor, pids[r], address) for r, (_, address, _, actor) in enumerate(placed)]

    def close(self) -> None:
        """End the actors, and free their resources."""
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)


class RankActor:
    """The Ray actor that starts a rank's process. The rank does not run in the actor's process, because signal handlers
    need the main thread, and a collective may hang. The rank's process ends with the actor."""

    def place(self) -> tuple[str, str, int]:
        """Listen on a port for torch's store, only on the node's address. Return the node's id, its address and the
        port."""
        import ray

        self._socket = socket.create_server((ray.util.get_node_ip_address(), 0))
        return ray.get_runtime_context().get_node_id(), *self._socket.getsockname()

    def start(self, setup: dict[str, Any], environment: dict[str, str]) -> int:
        """Start the rank's process, and return its process id. The process of rank 0 inherits the port on which `place`
        listens."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._output = io.FileIO(read)
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray sets OMP_NUM_THREADS, but a rank chooses its number of threads.
        port = None if setup["rank"] else self._socket.fileno()
        fds = () if port is None else (port,)
        self._rank = local_ranks.start_rank(setup | {"listening": port}, fds, os.environ | environment, write)
        os.close(write)
        self._socket.close()
        return self._rank.pid

    def poll(self) -> tuple[int | None, str, dict[str, Any], bytes]:
        """Wait for POLL_S seconds. Return the exit code, the reply and the new output of the rank's process, and a line
        about why the process ended."""
        time.sleep(POLL_S)
        self._rank.poll()
        return self._rank.code, self._rank.ending, self._rank.reply, self._output.read() or b""

    def stop(self) -> None:
        """Request that the rank saves a checkpoint and ends."""
        self._rank.stop()


class RayRank(RankProcess):
    """The driver's handle of a rank on a Ray cluster. The rank's output is printed on stderr. The rank ends with its
    actor."""

    def __init__(self, ray: Any, index: int, actor: Any, pid: int, address: str):
        """`actor` is a `RankActor` whose rank has started."""
        super().__init__(index, pid)
        self._ray, self._actor, self._address = ray, actor, address
        self._poll = actor.poll.remote()

    def poll(self) -> None:
        """Read the answer to the last poll of the rank if it has arrived, and poll again."""
        if self.code is not None or not self._ray.wait([self._poll], timeout=0)[0]:
            return
        try:
            self.code, ending, self.reply, output = self._ray.get(self._poll)
        except self._ray.exceptions.RayActorError:
            self.code, ending, output = -signal.SIGKILL, f"rank {self.index} is gone: its actor or node was lost", b""
        self.ending = f"{ending} on {self._address}"
        print(output.decode(errors="replace"), end="", file=sys.stderr, flush=True)
        self._poll = self._actor.poll.remote()

    def stop(self) -> None:
        self._actor.stop.remote()

    def kill(self) -> None:
        self._ray.kill(self._actor)
