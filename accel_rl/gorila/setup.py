"""The settings and classes that all processes of a cluster run use."""

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from accel_rl.algos.algorithm import Algorithm
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.gorila.sharded_sync import ShardedSync
from accel_rl.machine import hardware
from accel_rl.machine.placement import share_of_cores
from accel_rl.optim.flat import FlatParameters
from accel_rl.processes.process import before_torch
from accel_rl.settings.gorila_settings import GorilaConfig
from accel_rl.settings.resolved import Resolved
from accel_rl.training.context import Exchange

Role = Literal["bundle", "actor", "learner"]
"""The role of a cluster member: a `bundle` samples and learns, an `actor` only samples, and a `learner` only learns."""

ENDLESS = 2**62
"""The value of `env_steps` in a run whose length is given in updates."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of a cluster run, and the names by which the run's processes find each other."""

    config: dict[str, Any]
    """The settings of the run, from `Resolved.to_dict`"""
    folder: str
    """The path of the run folder, in which each member has a subfolder. On machines that do not share the driver's file
    system, this path is a local folder."""
    name: str
    """The names of all Ray actors of the run begin with this name."""
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
        """Set this process's memory options and import path for a cluster run, and return the run's settings."""
        before_torch()
        for path in self.sys_path:
            if path not in sys.path:
                sys.path.append(path)
        return Resolved.from_dict(self.config)

    def member_folder(self, index: int) -> Path:
        return Path(self.folder) / "members" / str(index)


@dataclass(frozen=True, slots=True)
class Place:
    """The Ray node and the machine on which a process runs."""

    node: str
    machine: str  # The machine's id, because several Ray nodes may run on one machine

    @classmethod
    def of_process(cls, ray: Any) -> "Place":
        boot = Path("/proc/sys/kernel/random/boot_id")
        machine = boot.read_text().strip() if boot.exists() else os.uname().nodename
        return cls(ray.get_runtime_context().get_node_id(), machine)


def member_config(config: Resolved, index: int, slot: int, slots: int) -> Resolved:
    """Return the settings of the cluster member number `index`. The cores of its machine are divided into `slots` equal
    shares, and the member uses share number `slot`. A member plays no evaluations, and has neither sinks nor
    callbacks."""
    cores = share_of_cores(hardware.usable_cores(config.sampler.cores), slots, slot)
    envs = config.rank_envs
    return replace(
        config,
        env_steps=ENDLESS if config.gorila.updates else config.env_steps,
        sampler=replace(
            config.sampler,
            cores=cores,
            first_env=index * envs,
            run_envs=(config.gorila.bundles + config.gorila.actors) * envs,
        ),
        evaluation=replace(config.evaluation, interval=0),
        log=replace(config.log, interval=config.log_interval(), tensorboard=False),
        wandb="disabled",
        callback=(),
        sink=(),
    )


class Reader(Exchange):
    """An `Exchange` that pulls the parameter server's parameters into a `Learner`."""

    captures_updates = False
    sync: ShardedSync

    def __init__(self, name: str, config: GorilaConfig):
        """`name` identifies this process to the shards."""
        self._name = name
        self._config = config

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        self.sync = ShardedSync(flat, algo.build_optimizer, algo.config.max_grad_norm, self._config, self._name)
        return self.sync
