"""Where the runs of a sweep go: options, slots, and what a run of several GPUs is."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from accel_rl.config import TrainConfig
from accel_rl.counts import Count
from accel_rl.errors import ConfigError
from launch import machine, slots


@dataclass(frozen=True)
class Placing:
    """How runs are placed; kept in the folder, so that a sweep that goes on does so alike."""

    gpus: str = "all"
    """GPUs to use, such as 0-7 or 0,2; all, or none. Without any, slots are cores."""
    gpus_per_run: Count = 1
    """GPUs of one run, a rank on each."""
    runs_per_gpu: Count = 1
    """Runs that share a GPU; each has cores of its own."""
    cores: str = ""
    """Logical processors to use, such as 0-19. Default: those that the affinity mask and the cgroup grant."""
    cores_per_run: Count = 1
    """Cores of a run where there is no GPU; the hyperthreads of a core go with it."""


def make_slots(o: Placing, file: str = "") -> tuple[machine.Machine, list[slots.Slot]]:
    here = machine.load(Path(file)) if file else machine.read()
    if o.cores:
        here = here.restricted(machine.numbers(o.cores))
    gpus: list[int] | None = None if o.gpus == "all" else [] if o.gpus == "none" else machine.numbers(o.gpus)
    return here, slots.plan(here, gpus, o.gpus_per_run, o.runs_per_gpu, o.cores_per_run)


def on_gpus(config: TrainConfig, n: int) -> TrainConfig:
    """A run as it learns on n GPUs, which it will see as 0 to n - 1: with a rank on each, unless it says otherwise.
    ConfigError where it does not divide."""
    group = config.group
    ranks = max(group.ranks or 1, n)
    if group.gpus or ranks == 1:
        return config
    if group.ranks and group.ranks < n:
        raise ConfigError(f"--gpus-per-run {n}: a run of {group.ranks} ranks cannot use {n} GPUs")
    replace(config, group=replace(group, ranks=ranks)).check()
    return replace(config, group=replace(group, ranks=ranks, gpus=",".join(map(str, range(n)))))


def placing(o: Placing) -> dict[str, Any]:
    return {f.name: getattr(o, f.name) for f in fields(Placing)}
