"""Placement of a sweep's runs on cores and GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from accel_rl.config.train import TrainConfig
from accel_rl.sweeps.machine import numbers
from accel_rl.sweeps.needs import Needs, Size
from accel_rl.system.counts import Count, OptionalCount, counted
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class Placing:
    """Options of placement, stored in the sweep's folder for --resume."""

    gpus: str = "all"
    """GPUs to use, such as 0-7 or 0,2; all, or none. Without GPUs a slot consists of cores."""
    gpus_per_run: OptionalCount = None
    """Number of GPUs of every run. Default: the number that each run asks for (one per rank), at most all GPUs."""
    runs_per_gpu: Count = 1
    """Number of runs that share a GPU. Each run has its own cores."""
    cores: str = ""
    """Logical processors to use, such as 0-19. Default: those that the affinity mask and the cgroup allow."""
    cores_per_run: OptionalCount = None
    """Number of physical cores of every run, without GPUs. Default: one for each worker of --sampler.workers, else one
    for each rank; at most all cores."""

    @property
    def gpu_list(self) -> list[int] | None:
        """The GPUs to use; None: all. ConfigError."""
        return None if self.gpus == "all" else [] if self.gpus == "none" else numbers(self.gpus)


def placing(o: Placing) -> dict[str, Any]:
    return {f.name: getattr(o, f.name) for f in fields(Placing)}


def size_of(needs: Needs, o: Placing, gpus: int, cores: int) -> Size:
    """Return the size of a run's slot on a machine with `gpus` GPUs and `cores` cores. ConfigError."""
    for flag, value in (("--gpus-per-run", o.gpus_per_run), ("--cores-per-run", o.cores_per_run)):
        if value is not None and value < 1:
            raise ConfigError(f"{flag} {value}: must be at least 1")
    if gpus and (o.gpus_per_run or needs.gpus):
        return Size(o.gpus_per_run or needs.gpus_of(gpus))
    return Size(0, o.cores_per_run or min(needs.cores, cores))


def on_gpus(config: TrainConfig, n: int) -> TrainConfig:
    """Return the configuration of a run on n GPUs, which it will see as 0 to n - 1.

    Each GPU gets a rank, unless the configuration names GPUs or more ranks, which then share the GPUs. ConfigError if
    the batch or the environments cannot be divided among the ranks. Ray divides the GPUs of a Gorila run.
    """
    group = config.distributed
    ranks = max(group.ranks or 1, n)
    if group.gpus or ranks == 1 or config.cluster == "gorila":
        return config
    if group.ranks and group.ranks < n:
        given = f"{counted(group.ranks, 'rank')} cannot use {n} GPUs"
        raise ConfigError(f"{given}: --gpus-per-run, or what a level asks for, must be at most {group.ranks}")
    replace(config, distributed=replace(group, ranks=ranks)).check()
    return replace(config, distributed=replace(group, ranks=ranks, gpus=",".join(map(str, range(n)))))


def needs_of_begun(config: TrainConfig, size: Mapping[str, Mapping[str, int]]) -> Needs:
    """Return the needs of a run that has begun: the GPUs named in its configuration, and the cores it was begun with.

    size: the run's entry in sweep.json.
    """
    return Needs(len(_named(config)) or 1, size["gets"]["cores"] or size["asks"]["cores"])


def check_begun(config: TrainConfig, size: Size) -> None:
    """Raise ConfigError if a run that has begun would get a different number of GPUs than its configuration names."""
    names = _named(config)
    if size.gpus != (len(names) or 1) and (size.gpus or names):
        got = counted(size.gpus, "GPU") if size.gpus else "none"
        raise ConfigError(f"it was begun on {counted(len(names) or 1, 'GPU')} and would get {got}")


def _named(config: TrainConfig) -> list[str]:
    return config.distributed.gpus.replace(" ", ",").split(",") if config.distributed.gpus else []
