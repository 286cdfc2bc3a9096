"""A shard of the parameter server: one slice of the parameters, and the state of its optimizer.

Nair et al. 2015, section 4, "Parameter server": each machine applies gradients to its part of the parameter vector.
Section 4.2: the server discards gradients that are older than a threshold.
"""

import secrets
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from accel_rl.gorila.messages import (
    AccumulatedPush,
    Answer,
    Pulled,
    Push,
    ShardCounts,
    Snapshot,
    Version,
)
from accel_rl.optim.accumulated import Accumulated, Point, add_
from accel_rl.optim.optimizer import Optimizer


def _copy(state: dict[str, Any]) -> dict[str, Any]:
    return {name: _host_copy(x) if isinstance(x, Tensor) else x for name, x in state.items()}


def _host_copy(x: Tensor) -> Tensor:
    return x.detach().to("cpu", copy=True)


class Shard:
    """Applies the pushes of all learners to its slice, one after the other. It is not safe for several threads.

    A shard starts a new epoch when it is built and when it is restored. Epochs are random numbers, so that a process
    that takes the place of a dead one never repeats an epoch. Learning does not depend on them.
    """

    def __init__(self, parameters: Tensor, optimizer: Optimizer, max_delay: int):
        """parameters [n] float32: initial ones; they are copied. optimizer: for n parameters, on the same device.

        max_delay: maximum age of a push, in other pushes to this shard since the version of the push.
        """
        self.optimizer, self.max_delay = optimizer, max_delay
        self._parameters = parameters.detach().clone()
        self._sequences: dict[str, int] = {}
        self.counts = ShardCounts()
        self.version = Version(_new_epoch(), 0, 0)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self._parameters.device

    def join(self, learner: str) -> int:
        """Return the last sequence number of a learner; 0 if the shard has not seen it. Its next push must be above."""
        return self._sequences.get(learner, 0)

    def push(self, push: Push | AccumulatedPush) -> Answer:
        """Make the updates of a push, unless it is a duplicate, stale or not finite. ValueError: wrong size."""
        if push.size != len(self._parameters):
            raise ValueError(f"a push of {push.size} elements for {len(self._parameters)} parameters")
        if push.sequence <= self.join(push.learner):
            self.counts.duplicates += 1
            return "duplicate"
        self._sequences[push.learner] = push.sequence
        delay = self.version.pushes - push.version.pushes
        if push.version.epoch != self.version.epoch or not 0 <= delay <= self.max_delay:
            self.counts.stale += 1
            return "stale"
        if not push.is_finite():
            self.counts.refused += 1
            return "not finite"
        updates = 1
        if isinstance(push, Push):
            self.optimizer.step(self._parameters, push.gradient.to(self._parameters.device), push.learning_rate)
        else:
            updates = self._add(push.parts)
        self.version = Version(self.version.epoch, self.version.updates + updates, self.version.pushes + 1)
        self.counts.accepted += 1
        self.counts.delay += delay
        return "accepted"

    def _add(self, parts: list[Accumulated]) -> int:
        """Make the updates of an accumulated push; returns their number, which is that of the first part."""
        decay = cast(dict[str, float], self.optimizer.decay)  # type: ignore[attr-defined]
        whole, begin, numbers = Point(self._parameters, self.optimizer.state_dict()), 0, dict[str, float]()
        for accumulated in parts:
            end = begin + len(accumulated.step)
            changed = add_(whole.part(slice(begin, end)), accumulated, decay)
            numbers, begin = numbers or changed, end
        if numbers:
            self.optimizer.load_state_dict({**whole.optimizer, **numbers})
        return parts[0].updates

    def pull(self, since: Version | None, with_optimizer: bool = False) -> Pulled:
        """Return the current version, and the parameters if they are not those of the version `since`.

        with_optimizer: return the optimizer's state, too.
        """
        if since == self.version:
            return Pulled(self.version, None)
        state = _copy(self.optimizer.state_dict()) if with_optimizer else None
        return Pulled(self.version, _host_copy(self._parameters), state)

    def status(self) -> tuple[Version, ShardCounts]:
        """Return the current version, and the numbers of pushes so far."""
        return self.version, replace(self.counts)

    def snapshot(self) -> Snapshot:
        """Return a copy of all state, on the host."""
        return Snapshot(
            _host_copy(self._parameters),
            _copy(self.optimizer.state_dict()),
            self.version.updates,
            dict(self._sequences),
            replace(self.counts),
        )

    def restore(self, snapshot: Snapshot) -> Version:
        """Continue from a snapshot in a new epoch: all learners pull, and gradients of earlier epochs are stale.

        Returns the new version.
        """
        self._parameters.copy_(snapshot.parameters)
        self.optimizer.load_state_dict(snapshot.optimizer)
        self._sequences, self.counts = dict(snapshot.sequences), replace(snapshot.counts)
        self.version = Version(_new_epoch(), snapshot.updates, 0)
        return self.version


def _new_epoch() -> int:
    return secrets.randbits(62)
