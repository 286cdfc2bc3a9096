"""What learners and shards of the parameter server send to each other."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor

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


@dataclass(frozen=True, slots=True)
class Push:
    """A learner's gradient of one slice."""

    learner: str
    sequence: int
    """Number of the push, from 1. A learner's pushes to a shard must arrive in this order."""
    version: Version
    """Version of the parameters at which the gradient was computed."""
    learning_rate: float
    gradient: Tensor  # [n] float32, on the host


@dataclass(frozen=True, slots=True)
class Pulled:
    """A shard's answer to a pull."""

    version: Version
    parameters: Tensor | None  # [n], a copy on the host; None if the learner already has this version


@dataclass(slots=True)
class ShardCounts:
    """Numbers of pushes to a shard, by its answer."""

    accepted: int = 0
    stale: int = 0
    duplicates: int = 0
    refused: int = 0
    """Pushes that were not finite."""
    delay: int = 0
    """Sum, over all accepted pushes, of the number of updates since the version of the push."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All state of a shard, as copies."""

    parameters: Tensor  # [n]
    optimizer: dict[str, Any]  # `Optimizer.state_dict`
    updates: int
    sequences: dict[str, int]  # the last sequence number of each learner
    counts: ShardCounts
