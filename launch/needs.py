"""Resources that a run asks for, and resources that it gets."""

from dataclasses import dataclass, field

from accel_rl.config.train import TrainConfig


@dataclass(frozen=True)
class Needs:
    """What a run asks for. A machine that has less gives what it has; `cores` counts where there is no GPU. `shared`:
    the number of environments that a rank on each GPU must divide, where the GPUs decide the number of ranks; 0: they
    do not."""

    gpus: int
    cores: int
    shared: int = field(default=0, compare=False)

    def gpus_of(self, there: int) -> int:
        """The largest number of available GPUs that the run can use."""
        n = min(self.gpus, there)
        while self.shared % n:
            n -= 1
        return n


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
    ranks, group = config.distributed.size, config.distributed
    decided = group.ranks is not None or group.update == "async"
    return Needs(ranks, ranks * (config.sampler.workers or 1), 0 if decided else config.sampler.envs)


def counted(n: int, thing: str) -> str:
    """1 core, 2 cores."""
    return f"{n} {thing}{'s' * (n != 1)}"
