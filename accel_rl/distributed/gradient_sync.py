"""From gradients to updates: the interface, and its form for a single learner."""

from typing import Any, Protocol

import torch
from torch import Tensor

from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.optimizer import Optimizer


class GradientSync(Protocol):
    """Turns the gradient in `flat.grad` into an update of `flat.data`."""

    skipped: int
    """Number of updates that were skipped because their loss or gradient was not finite."""
    skipped_in_a_row: int

    times: dict[str, float]
    """Seconds spent on synchronization with other ranks, by activity; empty for a single rank."""

    def pull(self) -> None:
        """Fetch newer parameters. Called before an off-policy gradient is computed, and before an evaluation."""

    def backward(self, loss: Tensor, samples: Tensor | float = 1.0) -> None:
        """Compute the gradient of a loss [] into `flat.grad`. The following `step` gets the same `samples` []."""

    def step(self, learning_rate: float, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        """Make one update; returns the gradient's norm before clipping, [].

        loss []: the loss that was minimised. samples []: number of samples that the loss is the mean of.
        """

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Local:
    """A single learner: clip, then step the optimizer. A non-finite update is skipped."""

    def __init__(self, flat: FlatParameters, optimizer: Optimizer, max_norm: float | None):
        self.flat, self.optimizer, self.max_norm = flat, optimizer, max_norm
        self.skipped = self.skipped_in_a_row = 0
        self.times: dict[str, float] = {}

    def pull(self) -> None:
        """Nothing to fetch."""

    def backward(self, loss: Tensor, samples: Tensor | float = 1.0) -> None:
        self.flat.backward(loss)

    def step(self, learning_rate: float, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        norm = clip_by_norm_(self.flat.grad, self.max_norm)
        self._step(learning_rate, norm + loss)
        return norm

    def _step(self, learning_rate: float, finite: Tensor) -> None:
        """Update, unless `finite` (norm + loss) is not finite. An overflow of the norm also skips the update."""
        if not torch.isfinite(finite):
            self.skipped += 1
            self.skipped_in_a_row += 1
            return
        self.skipped_in_a_row = 0
        self._apply_optimizer(learning_rate)

    def _apply_optimizer(self, learning_rate: float) -> None:
        self.optimizer.step(self.flat.data, self.flat.grad, learning_rate)

    def state_dict(self) -> dict[str, Any]:
        return {
            "parameters": self.flat.data,
            "optimizer": self.optimizer.state_dict(),
            "skipped": self.skipped,
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.flat.data.copy_(state["parameters"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.skipped, self.skipped_in_a_row = state["skipped"], state["skipped_in_a_row"]
