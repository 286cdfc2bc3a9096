"""What a run asks for, and what it gets."""

from dataclasses import dataclass

from accel_rl.config import TrainConfig


@dataclass(frozen=True)
class Needs:
    """What a run asks for. A machine that has less gives what it has; `cores` counts where there is no GPU."""

    gpus: int
    cores: int


@dataclass(frozen=True, order=True)
class Size:
    """What a run gets: `gpus`, each with its share of the cores of its NUMA node; without GPUs, `cores`. Ordered by
    size."""

    gpus: int
    cores: int = 0

    def __str__(self) -> str:
        return counted(self.gpus, "GPU") if self.gpus else counted(self.cores, "core")


def needs_of(config: TrainConfig) -> Needs:
    """A GPU for each rank; a core for each worker process of --sampler.workers, else one for each rank."""
    ranks = config.group.size
    return Needs(gpus=ranks, cores=ranks * (config.sampler.workers or 1))


def counted(n: int, thing: str) -> str:
    """1 core, 2 cores."""
    return f"{n} {thing}{'s' * (n != 1)}"
