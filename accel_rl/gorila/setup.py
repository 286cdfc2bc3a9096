"""This module has the settings and classes that all processes of a cluster run share."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from accel_rl.algos.algorithm import Algorithm
from accel_rl.config.gorila_settings import GorilaConfig
from accel_rl.config.resolved import Resolved
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.gorila.sharded_sync import ShardedSync
from accel_rl.optim.flat import FlatParameters
from accel_rl.runners.ranks.context import Exchange
from accel_rl.system import hardware
from accel_rl.system.placement import share_of_cores
from accel_rl.system.process import before_torch

Role = Literal["bundle", "actor", "learner"]
"""The `Role` of a cluster member: a `bundle` samples and learns, an `actor` samples, and a `learner` learns."""

ENDLESS = 2**62
"""`ENDLESS` is the number of env steps of a run that ends after a number of updates."""


@dataclass(frozen=True, slots=True)
class Setup:
    """`Setup` has the settings of a cluster run, and the names by which its processes find each other."""

    config: dict[str, Any]
    """`config` has the settings of the run, from `Resolved.to_dict`."""
    folder: str
    """The run folder, in which each member has a subfolder. Machines without a shared file system create the run folder
    locally."""
    name: str
    """The names of all Ray actors of the run begin with `name`."""
    sys_path: list[str] = field(default_factory=lambda: [p or os.getcwd() for p in sys.path])

    @property
    def shards(self) -> list[str]:
        return [f"{self.name}/shard-{i}" for i in range(self.config["gorila"]["shards"])]

    @property
    def board(self) -> str:
        return f"{self.name}/board"

    @property
    def replay(self) -> str:
        return f"{self.name}/replay"

    def enter(self) -> Resolved:
        """Set up this process for a cluster run, and return the run's settings."""
        before_torch()
        for path in self.sys_path:
            if path not in sys.path:
                sys.path.append(path)
        return Resolved.from_dict(self.config)

    def member_folder(self, index: int) -> Path:
        return Path(self.folder) / "members" / str(index)


@dataclass(frozen=True, slots=True)
class Place:
    """A `Place` names the Ray node and the machine on which a process runs."""

    node: str
    machine: str  # Several Ray nodes may run on one machine.
    pid: int

    @classmethod
    def of_process(cls, ray: Any) -> "Place":
        boot = Path("/proc/sys/kernel/random/boot_id")
        machine = boot.read_text().strip() if boot.exists() else os.uname().nodename
        return cls(ray.get_runtime_context().get_node_id(), machine, os.getpid())


def member_config(config: Resolved, slot: int, slots: int) -> Resolved:
    """Return the settings of a cluster member, which uses share number `slot` of the `slots` shares of its machine's
    cores, plays no evaluations, and has no sinks and no callbacks."""
    cores = share_of_cores(hardware.usable_cores(config.sampler.cores), slots, slot)
    return replace(
        config,
        env_steps=ENDLESS if config.gorila.updates else config.env_steps,
        sampler=replace(config.sampler, cores=cores),
        evaluation=replace(config.evaluation, interval=0),
        checkpoint=replace(config.checkpoint, interval=config.checkpoint_interval()),
        log=replace(config.log, interval=config.log_interval(), tensorboard=False),
        wandb="disabled",
        callback=(),
        sink=(),
    )


class Reader(Exchange):
    """A `Reader` loads the parameter server's parameters into a `Learner`."""

    captures_updates = False
    sync: ShardedSync

    def __init__(self, name: str, config: GorilaConfig, saves_shards: bool = False):
        """`name` is the name by which the shards know this process. The class `ShardedSync` explains `saves_shards`."""
        self._name = name
        self._config = config
        self._saves_shards = saves_shards

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        self.sync = ShardedSync(
            flat, algo.build_optimizer, algo.config.max_grad_norm, self._config, self._name, self._saves_shards
        )
        return self.sync


MOST = 3  # A process of the cluster run may fail to start at most 3 times in a row.
OVER_S = 300.0  # Repeated deaths end the run after `OVER_S` seconds without progress.
MAX_PAUSE_S = 30.0  # A dead process is replaced after at most 30 seconds.


def pause_after(deaths: int) -> float:
    """Return the seconds to wait before replacing a dead process, by the number of consecutive deaths."""
    return min(2.0 ** (deaths - MOST), MAX_PAUSE_S) if deaths >= MOST else 0.0


class Deaths:
    """`Deaths` counts the consecutive deaths of a process and its replacements without progress in between."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.worked()

    def worked(self) -> None:
        """Reset the number of consecutive deaths after a process has made progress."""
        self.in_a_row, self._since = 0, self._clock()

    def died(self) -> float | None:
        """Count the death of a process, and return the seconds to wait before its replacement starts, or None if the
        run must end."""
        self.in_a_row += 1
        if self.in_a_row > MOST and self._clock() - self._since > OVER_S:
            return None
        return pause_after(self.in_a_row)
