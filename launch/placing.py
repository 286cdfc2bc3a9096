"""Placement of the runs of a sweep on cores and GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from accel_rl.config.train import TrainConfig
from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError
from launch.machine import numbers
from launch.needs import Needs, Size, counted


@dataclass(frozen=True)
class Placing:
    """Options of placement, kept in the sweep's folder for --resume."""

    gpus: str = "all"
    """GPUs to use, such as 0-7 or 0,2; all, or none. Without any, slots are cores."""
    gpus_per_run: OptionalCount = None
    """GPUs of every run. Default: as many as each run asks for, a GPU a rank; at most those there are."""
    runs_per_gpu: Count = 1
    """Runs that share a GPU; each has cores of its own."""
    cores: str = ""
    """Logical processors to use, such as 0-19. Default: those that the affinity mask and the cgroup grant."""
    cores_per_run: OptionalCount = None
    """Cores of every run where there is no GPU; the hyperthreads of a core go with it. Default: as many as each run
    asks for, a core for each worker that it names, else for each rank; at most those there are."""

    @property
    def gpu_list(self) -> list[int] | None:
        """None: all there are. ConfigError."""
        return None if self.gpus == "all" else [] if self.gpus == "none" else numbers(self.gpus)


def placing(o: Placing) -> dict[str, Any]:
    return {f.name: getattr(o, f.name) for f in fields(Placing)}


def size_of(needs: Needs, o: Placing, gpus: int, cores: int) -> Size:
    """What a run gets where there are so many GPUs, or so many cores and no GPU. ConfigError."""
    for flag, value in (("--gpus-per-run", o.gpus_per_run), ("--cores-per-run", o.cores_per_run)):
        if value is not None and value < 1:
            raise ConfigError(f"{flag} {value}: must be at least 1")
    if gpus:
        return Size(o.gpus_per_run or needs.gpus_of(gpus))
    return Size(0, o.cores_per_run or min(needs.cores, cores))


def on_gpus(config: TrainConfig, n: int) -> TrainConfig:
    """A run as it learns on n GPUs, which it will see as 0 to n - 1: with a rank on each, unless it says otherwise;
    more ranks share them. ConfigError where it does not divide."""
    group = config.distributed
    ranks = max(group.ranks or 1, n)
    if group.gpus or ranks == 1:
        return config
    if group.ranks and group.ranks < n:
        given = f"{counted(group.ranks, 'rank')} cannot use {n} GPUs"
        raise ConfigError(f"{given}: --gpus-per-run, or what a level asks for, must be at most {group.ranks}")
    replace(config, distributed=replace(group, ranks=ranks)).check()
    return replace(config, distributed=replace(group, ranks=ranks, gpus=",".join(map(str, range(n)))))


def needs_of_begun(config: TrainConfig, size: Mapping[str, Mapping[str, int]]) -> Needs:
    """What a run asks for that has been begun: the GPUs that it was begun on, since it names them, and the cores that
    it got. `size`: of sweep.json."""
    return Needs(len(_named(config)) or 1, size["gets"]["cores"] or size["asks"]["cores"])


def check_begun(config: TrainConfig, size: Size) -> None:
    """ConfigError where a run that has been begun would get another number of GPUs than it names."""
    names = _named(config)
    if size.gpus != (len(names) or 1) and (size.gpus or names):
        got = counted(size.gpus, "GPU") if size.gpus else "none"
        raise ConfigError(f"it was begun on {counted(len(names) or 1, 'GPU')} and would get {got}")


def _named(config: TrainConfig) -> list[str]:
    return config.distributed.gpus.replace(" ", ",").split(",") if config.distributed.gpus else []
