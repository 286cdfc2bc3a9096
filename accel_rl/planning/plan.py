"""Decides on which cores and devices the processes, threads and environments of a run are placed.

A `RunPlan` has the settings and a `RankPlan` of each rank (each training process). The `RunPlan` is made once, before
the run folder is created. The parts of a run receive the settings and the plan of their rank.

A `RankPlan` has a `SamplerPlan` for the rank's training environments. The `RankPlan` also derives the `SamplerPlan` of
an evaluation.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from accel_rl.envs.make import ResolvedEnv
from accel_rl.machine import hardware
from accel_rl.machine.devices import Device
from accel_rl.machine.placement import Placement, place_processes
from accel_rl.planning.rank_config import rank_config
from accel_rl.samplers.grouping import Grouping, NamesEngine, most_workers
from accel_rl.samplers.workers.stepper import BUFFERS
from accel_rl.settings.resolved import Resolved
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError
from accel_rl.text.notes import say_once

# With groups of 4, 8 and 16 environments, two inference threads sampled 1.2 to 1.5 times as fast as one.
MIN_ENVS_PER_THREAD = 4


@dataclass(frozen=True, slots=True)
class SamplerPlan(NamesEngine):
    T: int  # A rollout has T steps of each environment.
    grouping: Grouping
    device: str
    buffers: int  # The rollout memory has room for `buffers` rollouts.
    engine: str
    worker_cores: tuple[int | None, ...]  # Each worker process is pinned to a core, or not pinned (None).
    shares_cores: bool
    act_threads: int  # Each inference operation uses `act_threads` threads.
    act_cores: tuple[int, ...] = ()  # The inference thread is pinned to `act_cores`, or not pinned if empty.
    # The cores of each group's inference thread, or () if one inference thread serves all groups
    inference_cores: tuple[tuple[int, ...], ...] = ()

    @property
    def in_process(self) -> bool:
        """Whether the environments are stepped without worker processes, in this process or on its device."""
        return not self.has_workers

    def environments(self) -> str:
        B = self.grouping.B
        groups = self.grouping.groups
        workers = self.grouping.workers
        where = f"on {counted(workers, 'worker')}" if self.has_workers else "in this process"
        where = f"on {self.device}" if self.on_device else where
        return f"{counted(B, 'environment')} in {counted(groups, 'group')} {where}"

    @property
    def threaded_inference(self) -> bool:
        """Whether each group of environments has its own inference thread and its own worker processes."""
        return bool(self.inference_cores)


@dataclass(frozen=True, slots=True)
class RankPlan:
    rank: int
    size: int
    placement: Placement
    groups: int  # The environments are divided into `groups` groups.
    sampler: SamplerPlan

    @property
    def device(self) -> Device:
        return Device(self.placement.device)

    @classmethod
    def resolve(cls, config: Resolved, rank: int = 0, size: int = 1, device: str = "") -> "RankPlan":
        """`config` has the rank's own settings. `device` overrides --device. Raises ConfigError if a device or a core
        is not available, or if the groups and workers cannot share the environments evenly."""
        s, device = config.sampler, device or resolve_device(config.device)
        placement = place_processes(s.workers, s.cores, device, config.torch_threads, config.schedule == "concurrent")
        # Worker processes are idle during inference, so inference uses every core.
        if _emulator_on_cpu(config.env, device):
            placement = replace(placement, act_threads=placement.torch_threads)
        groups = s.groups or (1 if _emulator_on_cpu(config.env, device) or s.envs % 2 else 2)
        if s.on_device:
            placement = replace(placement, worker_cores=placement.worker_cores[:1])
        elif s.workers is None:
            placement = _fit_workers(config, placement, 1 if s.inference_per_worker else groups)
        return cls(rank, size, placement, groups, _training_sampler(config, placement, groups))

    @classmethod
    def acting(cls, config: Resolved) -> "RankPlan":
        """Plan an evaluation without training, on all usable cores. Raises ConfigError."""
        # The number of training environments only determines the number of workers; no training environments are built.
        envs = 2 * default_workers(config.device)
        return cls.resolve(replace(config, sampler=replace(config.sampler, envs=envs)))

    def evaluation(self, B: int, T: int) -> SamplerPlan:
        groups = self.groups if B % self.groups == 0 else 1
        grouping = Grouping(B, groups, most_workers(B, groups, self.placement.workers))
        return _one_server(self.placement, grouping, T, BUFFERS, self.sampler.engine)

    def lines(self) -> list[str]:
        p, s = self.placement, self.sampler
        groups = counted(s.grouping.groups, "group")
        if s.on_device:
            workers = f"environments are emulated on {s.device}"
        elif s.in_process:
            workers = "environments are stepped in the learner's process"
        else:
            workers = f"{counted(p.workers, 'worker')} on cores {_listed(s.worker_cores)}"
        workers += ", each dedicated to one group" if s.grouping.dedicated_workers and s.grouping.groups > 1 else ""
        inference = "one thread per group" if s.threaded_inference else "one server"
        inference += f" on cores {_listed(p.server_cores)}, {counted(s.act_threads, 'thread')} an operation"
        learner = (
            f"on cores {_listed(p.learner_cores)}, beside sampling"
            if p.learner_cores
            else f"on cores {_listed(p.server_cores)}"
        )
        return [
            f"rank {self.rank} of {self.size} on {self.device}",
            f"B = {counted(s.grouping.B, 'environment')} in {groups}, T = {s.T} steps",
            workers,
            f"inference: {inference}",
            f"learner: {learner}, {counted(p.torch_threads, 'thread')} an operation",
        ]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "RankPlan":
        s, p = d["sampler"], d["placement"]
        cores = {name: tuple(s[name]) for name in ("worker_cores", "act_cores")}
        threads = tuple(tuple(cores) for cores in s["inference_cores"])
        sampler = SamplerPlan(**{**s, **cores, "grouping": Grouping(**s["grouping"]), "inference_cores": threads})
        lists = {name: tuple(p[name]) for name in ("worker_cores", "server_cores", "learner_cores")}
        return cls(**{**d, "placement": Placement(**{**p, **lists}), "sampler": sampler})


@dataclass(frozen=True, slots=True)
class RunPlan:
    config: Resolved
    rank_configs: tuple[Resolved, ...]
    ranks: tuple[RankPlan, ...]

    @classmethod
    def resolve(cls, config: Resolved) -> "RunPlan":
        """Raises ConfigError for impossible settings."""
        size = config.distributed.size
        configs = tuple(rank_config(config, r) for r in range(size))
        return cls(config, configs, tuple(RankPlan.resolve(c, r, size) for r, c in enumerate(configs)))

    def in_folder(self, path: Path) -> "RunPlan":
        config, *configs = (replace(c, run_dir=str(path)) for c in (self.config, *self.rank_configs))
        return RunPlan(config, tuple(configs), self.ranks)

    def lines(self) -> list[str]:
        return [line for rank in self.ranks for line in rank.lines()]


def resolve_device(device: str) -> str:
    """Either "cpu" or a GPU's name with its index. Raises ConfigError if the device does not exist."""
    if device == "auto":
        return hardware.gpu_name() if hardware.gpu_count() else "cpu"
    device = hardware.available_device(device, "--device")
    return device if device == "cpu" or ":" in device else hardware.gpu_name()


def default_workers(device: str) -> int:
    return place_processes(device=resolve_device(device)).workers


def _emulator_on_cpu(env: ResolvedEnv, device: str) -> bool:
    """Whether this project's emulator runs in worker processes that share their cores with inference."""
    return device == "cpu" and env.is_emulated


def _fit_workers(config: Resolved, placement: Placement, groups: int) -> Placement:
    """Use the largest number of worker processes among which the environments can be divided evenly. Each worker
    process steps `groups` groups of environments."""
    B = config.sampler.envs
    if B % groups:
        raise ConfigError(f"B={B} must divide by {groups} groups; use {-(-B // groups) * groups}")
    fitting = most_workers(B, groups, placement.workers)
    if fitting < placement.workers:
        each = groups * placement.workers
        use = " or ".join(str(n) for n in (B // each * each, (B // each + 1) * each) if n)
        say_once(
            f"{counted(B, 'environment')} in {counted(groups, 'group')} "
            f"keep{'s' * (B == 1)} {fitting} of {placement.workers} cores "
            f"busy; --sampler.envs {use} would use all"
        )
    return replace(placement, worker_cores=placement.worker_cores[:fitting])


def _training_sampler(config: Resolved, placement: Placement, groups: int) -> SamplerPlan:
    s, workers = config.sampler, placement.workers
    buffers = _buffers(config)
    if s.inference_per_worker:  # One inference thread serves the groups of environments in order of arrival.
        grouping = Grouping(s.envs, workers, workers, dedicated_workers=True)
        return _one_server(placement, grouping, config.T, buffers, s.engine)
    # Inference threads cannot run during concurrent learning, because BLAS has one thread count per process.
    threadable = placement.device == "cpu" and bool(config.env.game) and config.schedule != "concurrent"
    dedicated = threadable and s.envs % workers == 0
    if dedicated and s.groups is None and workers % 2 == 0 and s.envs >= 2 * MIN_ENVS_PER_THREAD:
        groups = 2
    grouping = Grouping(s.envs, groups, workers, dedicated_workers=dedicated and groups > 1 and workers % groups == 0)
    plan = _one_server(placement, grouping, config.T, buffers, s.engine)
    if not grouping.dedicated_workers or not plan.shares_cores or plan.in_process:
        return plan
    of_groups = [[plan.worker_cores[w] for w in grouping.workers_of(g)] for g in range(groups)]
    return replace(
        plan,
        act_threads=max(1, placement.torch_threads // groups),
        act_cores=(),
        inference_cores=tuple(tuple(c for c in cores if c is not None) for cores in of_groups),
    )


def _buffers(config: Resolved) -> int:
    """The number of rollouts in memory: two, or in concurrent training the number of rollouts per period plus one."""
    if config.schedule != "concurrent":
        return BUFFERS
    return config.rank_period // (config.T * config.sampler.envs) + 1


def _one_server(placement: Placement, grouping: Grouping, T: int, buffers: int, engine: str) -> SamplerPlan:
    """The plan of a sampler with one inference thread for all groups of environments."""
    cores = placement.worker_cores[: grouping.workers]
    shared = bool(set(placement.server_cores) & set(placement.worker_cores))
    settles = shared and placement.act_threads == 1 and len(placement.server_cores) > 1
    plan = SamplerPlan(
        T=T,
        buffers=buffers,
        grouping=grouping,
        device=placement.device,
        engine=engine,
        worker_cores=cores,
        shares_cores=shared,
        act_threads=placement.act_threads,
    )
    if settles and None not in cores and plan.has_workers:
        return replace(plan, act_cores=placement.server_cores)
    return plan


def _listed(cores: tuple[int | None, ...]) -> str:
    return " ".join("unpinned" if c is None else str(c) for c in cores)
