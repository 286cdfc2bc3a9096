"""Which environments belong to which group and worker."""

from dataclasses import dataclass

import numpy as np

from accel_rl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Grouping:
    """B environments in `groups` x `workers` equal slices. Environment b is the same one whatever the worker count."""

    B: int
    groups: int
    workers: int

    def __post_init__(self) -> None:
        if self.B < 1 or self.groups < 1 or self.workers < 1:
            raise ConfigError(f"B={self.B}, groups={self.groups}, workers={self.workers}: each must be at least 1")
        parts = self.groups * self.workers
        if self.B % parts:
            use = max(1, round(self.B / parts)) * parts
            raise ConfigError(f"B={self.B} must divide by {self.groups} groups x {self.workers} workers; use {use}")

    @property
    def n(self) -> int:
        """Environments per worker and group."""
        return self.B // (self.groups * self.workers)

    def group(self, g: int) -> slice:
        size = self.B // self.groups
        return slice(g * size, (g + 1) * size)

    def part(self, worker: int, g: int) -> slice:
        start = self.group(g).start + worker * self.n
        return slice(start, start + self.n)


def most_workers(B: int, groups: int, cores: int) -> int:
    """The largest number of workers, at most one a core, that B environments in `groups` groups divide by."""
    return max((w for w in range(1, cores + 1) if B % (groups * w) == 0), default=1)


def env_seed(seed: int, index: int, generation: int = 0) -> int:
    """The seed of environment `index` (global over ranks); a replaced worker's environments are a new generation."""
    return int(np.random.SeedSequence(seed, spawn_key=(index, generation)).generate_state(1, np.uint32)[0] >> 1)
