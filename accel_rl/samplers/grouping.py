"""Divides the environments of a sampler into groups, and among worker processes."""

from dataclasses import dataclass

import numpy as np

from accel_rl.text.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Grouping:
    """Divides B environments into `groups` groups, and each group among workers, in equal slices. The environments'
    seeds do not depend on the number of workers.

    With `dedicated_workers`, each worker process steps environments of only one group, and all groups have the same
    number of workers. Without `dedicated_workers`, each worker process steps a part of every group.
    """

    B: int
    groups: int
    workers: int
    dedicated_workers: bool = False

    def __post_init__(self) -> None:
        if self.B < 1 or self.groups < 1 or self.workers < 1:
            raise ConfigError(f"B={self.B}, groups={self.groups}, workers={self.workers}: each must be at least 1")
        assert not self.dedicated_workers or self.workers % self.groups == 0
        parts = self.workers * (1 if self.dedicated_workers else self.groups)
        if self.B % parts:
            use = max(1, round(self.B / parts)) * parts
            by = (
                f"{self.workers} workers"
                if self.dedicated_workers
                else f"{self.groups} groups x {self.workers} workers"
            )
            raise ConfigError(f"B={self.B} must divide by {by}; use {use}")

    @property
    def n(self) -> int:
        """The number of environments that one worker steps in one group."""
        return self.B // (self.workers * (1 if self.dedicated_workers else self.groups))

    @property
    def alternates(self) -> bool:
        """Whether the action server alternates between several groups of environments."""
        return self.groups > 1 and not self.dedicated_workers

    def groups_of(self, worker: int) -> range:
        if not self.dedicated_workers:
            return range(self.groups)
        group = worker * self.groups // self.workers
        return range(group, group + 1)

    def workers_of(self, group: int) -> range:
        if not self.dedicated_workers:
            return range(self.workers)
        each = self.workers // self.groups
        return range(group * each, (group + 1) * each)

    def group(self, g: int) -> slice:
        size = self.B // self.groups
        return slice(g * size, (g + 1) * size)

    def part(self, worker: int, g: int) -> slice:
        start = self.group(g).start + self.workers_of(g).index(worker) * self.n
        return slice(start, start + self.n)


def most_workers(B: int, groups: int, cores: int) -> int:
    """Return the largest number of workers, at most one per core, among which B environments in `groups` groups can be
    divided evenly, or 1 if there is no such number."""
    return max((w for w in range(1, cores + 1) if B % (groups * w) == 0), default=1)


def env_seed(seed: int, index: int, generation: int = 0) -> int:
    """Return the seed of an environment. `index` is counted over all ranks. Each time a worker process dies,
    `generation` is increased, so that the environments of its replacement get new seeds."""
    return int(np.random.SeedSequence(seed, spawn_key=(index, generation)).generate_state(1, np.uint32)[0] >> 1)


class NamesEngine:
    """Base class of settings and plans with the field `engine`, the name of a sampler's engine."""

    __slots__ = ()
    engine: str

    @property
    def has_workers(self) -> bool:
        return self.engine == "workers"

    @property
    def on_device(self) -> bool:
        return self.engine == "device"
