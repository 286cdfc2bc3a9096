"""What learners and shards of the parameter server send to each other."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from accel_rl.optim.accumulated import Accumulated

Answer = Literal["accepted", "stale", "duplicate", "not finite"]
"""A shard's answer to a push; it updates its parameters only if the push is accepted.

stale: the gradient's parameters are too old, or of another epoch. duplicate: this push, or a later one of the same
learner, has been answered before. not finite: the gradient or the learning rate is not finite.
"""


class Version(NamedTuple):
    """A version of a shard's parameters."""

    epoch: int
    """Identifies one life of the shard. Versions of different epochs cannot be compared."""
    updates: int
    """Number of updates that the parameters contain."""
    pushes: int
    """Number of pushes that they contain, since the epoch began. An accumulated push contains several updates."""


@dataclass(frozen=True, slots=True)
class Push:
    """A learner's gradient of one slice. A shard makes one update from it."""

    learner: str
    sequence: int
    """Number of the push, from 1. A learner's pushes to a shard must arrive in this order."""
    version: Version
    """Version of the parameters at which the gradient was computed."""
    learning_rate: float
    gradient: Tensor  # [n] float32, on the host

    @property
    def size(self) -> int:
        return self.gradient.numel()

    def is_finite(self) -> bool:
        return math.isfinite(self.learning_rate) and bool(torch.isfinite(self.gradient).all())


@dataclass(frozen=True, slots=True)
class AccumulatedPush:
    """The updates that the learners of one machine have made to one slice since the machine's last push."""

    learner: str  # the machine
    sequence: int
    version: Version
    """Version of the parameters from which the updates began."""
    parts: list[Accumulated]
    """Of consecutive parts of the slice, whose numbers of updates can differ."""

    @property
    def size(self) -> int:
        return sum(len(part.step) for part in self.parts)

    def is_finite(self) -> bool:
        return all(part.is_finite() for part in self.parts)


@dataclass(frozen=True, slots=True)
class Pulled:
    """A shard's answer to a pull."""

    version: Version
    parameters: Tensor | None  # [n], a copy on the host; None if the learner already has this version
    optimizer: dict[str, Any] | None = None  # `Optimizer.state_dict`, a copy on the host, if it was asked for


@dataclass(slots=True)
class ShardCounts:
    """Numbers of pushes to a shard, by its answer."""

    accepted: int = 0
    stale: int = 0
    duplicates: int = 0
    refused: int = 0
    """Pushes that were not finite."""
    delay: int = 0
    """Sum, over all accepted pushes, of the number of other pushes since the version of the push."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All state of a shard, as copies."""

    parameters: Tensor  # [n]
    optimizer: dict[str, Any]  # `Optimizer.state_dict`
    updates: int
    sequences: dict[str, int]  # the last sequence number of each learner
    counts: ShardCounts
