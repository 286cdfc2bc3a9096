"""A shard of the parameter server stores one slice of the parameters and the slice's optimizer state.

In Nair et al. (2015, section 4, "Parameter server"), each machine applies gradients to its part of the parameter
vector. The parameter server discards gradients that are older than a threshold (Nair et al. 2015, section 4.2).
"""

import math
import secrets
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from accel_rl.optim.optimizer import Optimizer

Answer = Literal["accepted", "stale", "duplicate", "refused"]
"""A shard's answer to a pushed gradient. The shard updates its parameters only if the answer is `accepted`.

The answer `stale` means that the gradient was computed at parameters that are too old, or before the shard was
restored. The answer `duplicate` means that the shard has already received this push or a later push of the learner. The
answer `refused` means that the gradient or the learning rate is not finite.
"""


class Version(NamedTuple):
    """Identifies one state of a shard's parameters."""

    epoch: int
    """A random number that identifies one start or restore of the shard. Versions of different epochs cannot
    be compared."""
    updates: int
    """Number of updates of the shard's parameters in all epochs"""
    pushes: int
    """Number of pushes that the shard has accepted since the epoch began"""


def tensor_over(array: Any) -> Tensor:
    """Return a read-only tensor that shares the memory of an array that Ray has received."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _pickled(message: "Push | Pulled") -> tuple[Any, ...]:
    """Pickle a message's tensor as a NumPy array. Ray copies an array once, to its object store, and maps it into the
    receiver's memory; Ray would copy a tensor three times."""
    values = [getattr(message, name) for name in message.__slots__]
    return _unpickled, (type(message), *(x.numpy() if isinstance(x, Tensor) else x for x in values))


def _unpickled(cls: type, *values: Any) -> Any:
    return cls(*(tensor_over(x) if isinstance(x, np.ndarray) else x for x in values))


@dataclass(frozen=True, slots=True)
class Push:
    """A learner's gradient of one slice of the parameters, with which the shard makes one update."""

    learner: str
    sequence: int
    """The number of the push, counted from 1 for each learner and shard"""
    version: Version
    """The version of the parameters at which the gradient was computed"""
    learning_rate: float
    gradient: Tensor

    @property
    def size(self) -> int:
        return self.gradient.numel()

    __reduce__ = _pickled

    def is_finite(self) -> bool:
        return math.isfinite(self.learning_rate) and bool(torch.isfinite(self.gradient).all())


@dataclass(frozen=True, slots=True)
class Pulled:
    """A shard's answer to a pull of parameters."""

    version: Version
    parameters: Tensor | None  # The parameters [n] on the host, or None if the learner has the newest version

    __reduce__ = _pickled


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of a shard's complete state."""

    parameters: Tensor  # [n]
    optimizer: dict[str, Any]
    updates: int
    sequences: dict[str, int]  # The sequence number of each learner's last push
    counts: Counter[str]


def _copy(state: dict[str, Any]) -> dict[str, Any]:
    return {name: _host_copy(x) if isinstance(x, Tensor) else x for name, x in state.items()}


def _host_copy(x: Tensor) -> Tensor:
    return x.detach().to("cpu", copy=True)


class Shard:
    """Applies all learners' gradients to its slice of the parameters. A `Shard` is not thread-safe.

    When a shard is built or restored, it starts a new epoch, which is a random number.
    """

    def __init__(self, parameters: Tensor, optimizer: Optimizer, max_delay: int):
        """`parameters` [n] float32 are the initial values, which are copied. `optimizer` is an optimizer of n
        parameters, on the same device as `parameters`. A push is stale if the shard has accepted more than `max_delay`
        other pushes since the push's version."""
        self.optimizer, self.max_delay = optimizer, max_delay
        self._parameters = parameters.detach().clone()
        self._sequences: dict[str, int] = {}
        self.counts = Counter[str]()
        """The number of pushes with each answer, and "delay", the sum of the ages of all accepted pushes. A push's age
        is the number of other pushes that the shard has accepted since the push's version."""
        self.version = Version(_new_epoch(), 0, 0)

    def join(self, learner: str) -> int:
        """Return the sequence number of a learner's last push, or 0 for a new learner."""
        return self._sequences.get(learner, 0)

    def push(self, push: Push) -> Answer:
        """Apply a push to the parameters, unless the push is a duplicate, stale or not finite. Raises
        ValueError for a push of the wrong size."""
        if push.size != len(self._parameters):
            raise ValueError(f"a push of {push.size} elements for {len(self._parameters)} parameters")
        answer = self._answer(push)
        self.counts[answer] += 1
        return answer

    def _answer(self, push: Push) -> Answer:
        if push.sequence <= self.join(push.learner):
            return "duplicate"
        self._sequences[push.learner] = push.sequence
        delay = self.version.pushes - push.version.pushes
        if push.version.epoch != self.version.epoch or not 0 <= delay <= self.max_delay:
            return "stale"
        if not push.is_finite():
            return "refused"
        self.optimizer.step(self._parameters, push.gradient.to(self._parameters.device), push.learning_rate)
        self.version = Version(self.version.epoch, self.version.updates + 1, self.version.pushes + 1)
        self.counts["delay"] += delay
        return "accepted"

    def pull(self, since: Version | None) -> Pulled:
        """Return the current version, and the parameters unless `since` is the current version."""
        return Pulled(self.version, None if since == self.version else _host_copy(self._parameters))

    def status(self) -> tuple[Version, Counter[str]]:
        """The current version of the parameters, and the counts of pushes so far."""
        return self.version, self.counts.copy()

    def snapshot(self) -> Snapshot:
        return Snapshot(
            _host_copy(self._parameters),
            _copy(self.optimizer.state_dict()),
            self.version.updates,
            dict(self._sequences),
            self.counts.copy(),
        )

    def restore(self, snapshot: Snapshot) -> Version:
        """Restore the shard from a snapshot, and start a new epoch. After the restore, gradients of earlier epochs are
        stale. Return the shard's new version."""
        self._parameters.copy_(snapshot.parameters)
        self.optimizer.load_state_dict(snapshot.optimizer)
        self._sequences, self.counts = dict(snapshot.sequences), snapshot.counts.copy()
        self.version = Version(_new_epoch(), snapshot.updates, 0)
        return self.version


def _new_epoch() -> int:
    return secrets.randbits(62)


def from_snapshots(snapshots: list[Snapshot]) -> dict[str, Any]:
    """Join the snapshots of all shards into one state. Parameters and tensors of the optimizer state become vectors
    [P]. A step count of the optimizer becomes a list with one entry per shard."""
    optimizers = [s.optimizer for s in snapshots]
    return {
        "parameters": torch.cat([s.parameters for s in snapshots]),
        "optimizer": {
            name: torch.cat([o[name] for o in optimizers]) if isinstance(x, Tensor) else [o[name] for o in optimizers]
            for name, x in optimizers[0].items()
        },
        "shards": [{"updates": s.updates, "sequences": s.sequences, "counts": dict(s.counts)} for s in snapshots],
    }


def to_snapshots(state: dict[str, Any], parts: list[slice]) -> list[Snapshot]:
    """Split the state of all shards into one snapshot for each slice in `parts`. Raises ValueError if the number of
    shards in the state is not that of `parts`."""
    shards = state["shards"]
    if len(shards) != len(parts):
        raise ValueError(f"the checkpoint has {len(shards)} shards, the run {len(parts)}")
    return [
        Snapshot(
            state["parameters"][part],
            {name: x[part] if isinstance(x, Tensor) else x[i] for name, x in state["optimizer"].items()},
            shard["updates"],
            dict(shard["sequences"]),
            Counter(shard["counts"]),
        )
        for i, (part, shard) in enumerate(zip(parts, shards, strict=True))
    ]
