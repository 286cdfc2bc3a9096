"""Resources that a run asks for, and resources that it gets."""

import math
from dataclasses import dataclass, field

from accel_rl.config.train import TrainConfig
from accel_rl.system.counts import counted


@dataclass(frozen=True)
class Needs:
    """Numbers of GPUs and cores that a run asks for. A smaller machine gives what it has. cores: used without a GPU.
    gpus may be 0: the run gets cores alone, on any machine.

    shared: if the number of GPUs determines the number of ranks, the number of environments, which that number must
    divide; else 0.
    """

    gpus: int
    cores: int
    shared: int = field(default=0, compare=False)

    def gpus_of(self, there: int) -> int:
        """Return the largest number of the available GPUs that the run can use."""
        n = min(self.gpus, there)
        while n and self.shared % n:
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
    """Return the needs of a run: one GPU per rank; one core per worker of --sampler.workers, else one per rank.

    A Gorila run whose Ray is started on this machine needs --gorila.bundle-cpus for each member (0: one core), and
    --gorila.bundle-gpus (0: one GPU) unless --device is cpu. On a running cluster (--address) only its driver runs
    here, on one core.
    """
    if config.cluster == "gorila":
        g = config.gorila
        if config.address:
            return Needs(0, 1)
        gpus = 0 if config.device == "cpu" else math.ceil(g.members * (g.bundle_gpus or 1))
        return Needs(gpus, math.ceil(g.members * (g.bundle_cpus or 1)))
    ranks, group = config.distributed.size, config.distributed
    decided = group.ranks is not None or group.is_async
    return Needs(ranks, ranks * (config.sampler.workers or 1), 0 if decided else config.sampler.envs)


def named_members(config: TrainConfig) -> str:
    """Name the processes of a Gorila run that sample or learn: 2 bundles, 1 actor."""
    g = config.gorila
    parts = (("bundle", g.bundles), ("actor", g.actors), ("learner", g.learners))
    return ", ".join(counted(n, name) for name, n in parts if n)
