"""Resources that a run asks for, and resources that it gets."""

from dataclasses import dataclass, field

from accel_rl.config.train import TrainConfig


@dataclass(frozen=True)
class Needs:
    """Numbers of GPUs and cores that a run asks for. A smaller machine gives what it has. cores: used without a GPU.

    shared: if the number of GPUs determines the number of ranks, the number of environments, which that number must
    divide; else 0.
    """

    gpus: int
    cores: int
    shared: int = field(default=0, compare=False)

    def gpus_of(self, there: int) -> int:
        """Return the largest number of the available GPUs that the run can use."""
        n = min(self.gpus, there)
        while self.shared % n:
            n -= 1
        return n


@dataclass(frozen=True, order=True)
class Size:
    """Size of a slot: `gpus`, each with its share of the cores of its NUMA node; without GPUs, `cores`."""

    gpus: int
    cores: int = 0

    def __str__(self) -> str:
        return counted(self.gpus, "GPU") if self.gpus else counted(self.cores, "core")


def needs_of(config: TrainConfig) -> Needs:
    """Return the needs of a run: one GPU per rank; one core per worker of --sampler.workers, else one per rank."""
    ranks, group = config.distributed.size, config.distributed
    decided = group.ranks is not None or group.update == "async"
    return Needs(ranks, ranks * (config.sampler.workers or 1), 0 if decided else config.sampler.envs)


def counted(n: int, thing: str) -> str:
    """Format a number of things: 1 core, 2 cores."""
    return f"{n} {thing}{'s' * (n != 1)}"
