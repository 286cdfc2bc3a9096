"""Divide the machine into slots, whose sizes match the GPUs and cores that the runs of a sweep request."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from accel_rl.machine.hardware import this_machine
from accel_rl.machine.machine import Machine, numbers, read_machine
from accel_rl.machine.placement import Slot, chosen_gpus, describe_slots, describe_unused, slots_of
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.trust import TrustOptions
from accel_rl.text.counts import Count, OptionalCount, counted
from accel_rl.text.errors import ConfigError


@dataclass(frozen=True)
class Needs:
    """The numbers of GPUs and cores that a training run requests. A run that requests more than the machine
    has is assigned the whole machine. `cores` applies only to runs without GPUs.

    `shared` is the number of environments of a run with one rank per assigned GPU; it must be divisible by the number
    of GPUs. For other runs, `shared` is 0.
    """

    gpus: int
    cores: int
    shared: int = field(default=0, compare=False)

    def gpus_of(self, available: int) -> int:
        """Return how many of `available` GPUs the run can use at most."""
        n = min(self.gpus, available)
        while n and self.shared % n:
            n -= 1
        return n


@dataclass(frozen=True, order=True)
class Size:
    """The size of a slot: `gpus` GPUs with a share of the cores of their NUMA nodes, or only `cores` cores."""

    gpus: int
    cores: int = 0

    def __str__(self) -> str:
        return counted(self.gpus, "GPU") if self.gpus else counted(self.cores, "core")


def needs_of(config: TrainConfig) -> Needs:
    """Return the GPUs and cores that a run requests: one GPU per rank, and one core per worker (--sampler.workers) or,
    without this setting, one core per rank.

    A Gorila run that starts Ray on this machine requests --gorila.bundle-cpus cores per member (one core if the setting
    is 0). Unless --device is cpu, a Gorila run also requests --gorila.bundle-gpus GPUs per member (one GPU if the
    setting is 0). A Gorila run on a running Ray cluster (--address) requests one core, because only its driver process
    is on this machine.
    """
    if config.mode.has_members:
        g = config.gorila
        if config.address:
            return Needs(0, 1)
        gpus = 0 if config.device == "cpu" else math.ceil(g.members * (g.bundle_gpus or 1))
        return Needs(gpus, math.ceil(g.members * (g.bundle_cpus or 1)))
    ranks, group = config.distributed.size, config.distributed
    decided = group.ranks is not None or group.is_async
    return Needs(ranks, ranks * (config.sampler.workers or 1), 0 if decided else config.sampler.envs)


def named_members(config: TrainConfig) -> str:
    """Describe the members of a Gorila run, such as "2 bundles, 1 actor"."""
    g = config.gorila
    parts = (("bundle", g.bundles), ("actor", g.actors), ("learner", g.learners))
    return ", ".join(counted(n, name) for name, n in parts if n)


@dataclass(frozen=True)
class Placing:
    """Options that assign GPUs and cores to a sweep's runs. These options are stored in the sweep's folder for
    --resume."""

    gpus: str = "all"
    """GPUs that the runs use, such as 0-7 or 0,2, or all, or none. With `none`, runs get only cores."""
    gpus_per_run: OptionalCount = None
    """Number of GPUs that every run gets. By default a run gets the number of GPUs that it requests (one per rank), at
    most all GPUs."""
    runs_per_gpu: Count = 1
    """Number of runs that share a GPU. Runs that share a GPU have separate cores."""
    cores: str = ""
    """Logical processors that the runs use, such as 0-19. By default the runs use all logical processors that the
    affinity mask and the cgroup allow."""
    cores_per_run: OptionalCount = None
    """Number of physical cores that every run without GPUs gets. By default a run gets one core per worker of
    --sampler.workers, otherwise one core per rank, and at most all cores."""

    idle: bool = False
    """Run the sweep in the machine's idle time (idle scheduling class), by default with one run at a time on all
    cores."""

    @property
    def gpu_list(self) -> list[int] | None:
        return None if self.gpus == "all" else [] if self.gpus == "none" else numbers(self.gpus)


@dataclass(frozen=True)
class LoopOptions(Placing):
    """The options that sweeps, searches and `accel-rl launch` share."""

    out: str = ""
    """Folder to create, by default runs/NAME-TIME."""
    retries: Count = 2
    """Number of times that a failed run is restarted from its checkpoint."""
    mps: bool = True
    """Start CUDA's Multi-Process Service, if runs share a GPU and the service is not running."""


@dataclass(frozen=True)
class RunOptions(LoopOptions, TrustOptions):
    override: tuple[str, ...] = ()
    """Settings that apply to every run, as on the command line of accel-rl train, such as env-steps=20000
    sampler.envs=8."""
    scale: float = 1.0
    """Factor by which each run's length, intervals, replay and epsilon schedule are multiplied."""


Chosen = TypeVar("Chosen", bound=Placing)


def placing(o: Placing) -> dict[str, Any]:
    return {f.name: getattr(o, f.name) for f in fields(Placing)}


def with_placing(o: Chosen, stored: Mapping[str, Any]) -> Chosen:
    """Return the options `o`, with a sweep's stored placement in place of options that were not given."""
    given = {k: v for k, v in placing(o).items() if v != getattr(Placing, k)}
    return replace(o, **{**stored, **given})


def size_of(needs: Needs, o: Placing, gpus: int, cores: int) -> Size:
    """Return the size of the slot for a run that requests `needs`, on a machine with `gpus` GPUs and `cores` cores."""
    for flag, value in (("--gpus-per-run", o.gpus_per_run), ("--cores-per-run", o.cores_per_run)):
        if value is not None and value < 1:
            raise ConfigError(f"{flag} {value}: must be at least 1")
    if gpus and (o.gpus_per_run or needs.gpus):
        return Size(o.gpus_per_run or needs.gpus_of(gpus))
    return Size(0, o.cores_per_run or (cores if o.idle else min(needs.cores, cores)))


def on_gpus(config: TrainConfig, n: int) -> TrainConfig:
    """Return the configuration of a run on n GPUs, which the run's processes see as GPUs 0 to n - 1.

    The run has one rank per GPU, unless the configuration names the GPUs itself. If the configuration requests more
    ranks than GPUs, the ranks share the GPUs. Raises ConfigError if the batch or the environments cannot be divided
    among the ranks. In a Gorila run, Ray assigns the GPUs to the members.
    """
    group = config.distributed
    ranks = max(group.ranks or 1, n)
    if group.gpus or ranks == 1 or config.mode.has_members:
        return config
    if group.ranks and group.ranks < n:
        given = f"{counted(group.ranks, 'rank')} cannot use {n} GPUs"
        raise ConfigError(f"{given}: --gpus-per-run, or what a level asks for, must be at most {group.ranks}")
    resolve(replace(config, distributed=replace(group, ranks=ranks)))
    return replace(config, distributed=replace(group, ranks=ranks, gpus=",".join(map(str, range(n)))))


def needs_of_begun(config: TrainConfig, size: Mapping[str, Mapping[str, int]]) -> Needs:
    """Return the GPUs and cores that a run requests when it is resumed, from its configuration and from `size`, its
    entry in sweep.json."""
    return Needs(len(_named(config)) or 1, size["gets"]["cores"] or size["asks"]["cores"])


def check_begun(config: TrainConfig, size: Size) -> None:
    """Raise ConfigError if a resumed run would get another number of GPUs than before."""
    names = _named(config)
    if size.gpus != (len(names) or 1) and (size.gpus or names):
        got = counted(size.gpus, "GPU") if size.gpus else "none"
        raise ConfigError(f"it was begun on {counted(len(names) or 1, 'GPU')} and would get {got}")


def _named(config: TrainConfig) -> list[str]:
    return config.distributed.gpus.replace(" ", ",").split(",") if config.distributed.gpus else []


@dataclass(frozen=True)
class Layout:
    """The slots of a machine. `sizes` maps each run to the size of its slot, and `slots` maps each size to all slots of
    this size. Slots of different sizes overlap."""

    machine: Machine
    sizes: Mapping[str, Size]
    slots: Mapping[Size, Sequence[Slot]]

    @property
    def most_runs(self) -> int:
        """The maximum number of runs at the same time, which is the largest number of slots of one size."""
        return max((len(slots) for slots in self.slots.values()), default=1)

    def cores(self, size: Size) -> int:
        return self.machine.cores_of(self.slots[size][0].held)

    def describe(self) -> list[str]:
        """Describe the machine and the sweep's slots as lines of text."""
        lines = [self.machine.describe()]
        for size in sorted(self.slots, reverse=True):
            slots = self.slots[size]
            count = sum(s == size for s in self.sizes.values())
            per_run = f"{size}, {counted(self.cores(size), 'core')}" if size.gpus else str(size)
            lines.append(f"{counted(count, 'run')} of {per_run}, {len(slots)} at the same time:")
            lines += describe_slots(slots)
        return lines + describe_unused(self.machine, [s for result in self.slots.values() for s in result])


def lay_out(o: Placing, needs: Mapping[str, Needs], file: str = "") -> Layout:
    """Divide this machine, or the machine that `file` describes, into slots for runs that request `needs`."""
    machine = read_machine(Path(file)) if file else this_machine()
    if o.cores:
        machine = machine.restricted(numbers(o.cores))
    gpus = chosen_gpus(machine, o.gpu_list)
    sizes = {name: size_of(n, o, len(gpus), machine.cores) for name, n in needs.items()}
    slots = {}
    for size in dict.fromkeys(sizes.values()):
        slots[size] = slots_of(machine, gpus if size.gpus else [], size.gpus or 1, o.runs_per_gpu, size.cores or 1)
    return Layout(machine, sizes, slots)


def in_order(waiting: Iterable[str], sizes: Mapping[str, Size]) -> list[str]:
    """Sort waiting runs by the size of their slots, the largest first."""
    return sorted(waiting, key=lambda name: sizes[name], reverse=True)


def starts(
    waiting: Iterable[str], sizes: Mapping[str, Size], slots: Mapping[Size, Sequence[Slot]], in_use: Iterable[Slot]
) -> list[tuple[str, Slot]]:
    """Return the runs of a sweep that can start now, each with its slot.

    If no slot of a run's size is free, the slot in which the fewest processors are in use is reserved for the run.
    Smaller runs may not use reserved slots, so that they do not delay a larger run.
    """
    used = {p for slot in in_use for p in slot.held}
    claimed: set[int] = set()
    exhausted: set[Size] = set()
    result = []
    for name in in_order(waiting, sizes):
        size = sizes[name]
        if size in exhausted:
            continue
        unclaimed = [slot for slot in slots[size] if claimed.isdisjoint(slot.held)]
        if not unclaimed:
            exhausted.add(size)
            continue
        best = min(unclaimed, key=lambda slot: len(used.intersection(slot.held)))
        if used.isdisjoint(best.held):
            result.append((name, best))
            used.update(best.held)
        else:
            claimed.update(best.held)
    return result
