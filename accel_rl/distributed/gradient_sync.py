"""From gradients to updates: the interface, and its form for a single learner."""

from typing import Any, Protocol

import torch
from torch import Tensor

from accel_rl.distributed.skipped_updates import CountsSkipped
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.optimizer import Optimizer, Rate


class GradientSync(Protocol):
    """Turns the gradient in `flat.grad` into an update of `flat.data`."""

    @property
    def skipped(self) -> int:
        """Number of updates that were skipped because their loss or gradient was not finite. Waits for a GPU."""

    @property
    def skipped_in_a_row(self) -> int:
        """Number of skipped updates since the last one that was made. Waits for a GPU."""

    times: dict[str, float]
    """Seconds spent on synchronization with other ranks, by activity; empty for a single rank."""

    def pull(self) -> None:
        """Fetch newer parameters. Called before an off-policy gradient is computed, and before an evaluation."""

    def backward(self, loss: Tensor, samples: Tensor | float = 1.0) -> None:
        """Compute the gradient of a loss [] into `flat.grad`. The following `step` gets the same `samples` []."""

    def step(self, learning_rate: Rate, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        """Make one update; returns the gradient's norm before clipping, [].

        loss []: the loss that was minimised. samples []: number of samples that the loss is the mean of.
        """

    def show_skipped(self) -> None:
        """Begin to bring the number of skipped updates from a GPU to the host, without waiting for it."""

    @property
    def seen_skipped_in_a_row(self) -> int:
        """The last value of `skipped_in_a_row` that has reached the host. Does not wait."""

    def verify(self) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Local(CountsSkipped):
    """A single learner: clip, then step the optimizer. A non-finite update is skipped.

    On a GPU the host does not wait to learn whether an update is skipped: the gradient becomes zero, the optimizer
    changes nothing, and the GPU counts it.
    """

    def __init__(self, flat: FlatParameters, optimizer: Optimizer, max_norm: float | None):
        self.flat, self.optimizer, self.max_norm = flat, optimizer, max_norm
        super().__init__(flat.data.device)
        self.times: dict[str, float] = {}
        self._on_gpu = not flat.data.is_cpu  # whether only the GPU knows which updates are skipped

    def pull(self) -> None:
        """Nothing to fetch."""

    def backward(self, loss: Tensor, samples: Tensor | float = 1.0) -> None:
        self.flat.backward(loss)

    def step(self, learning_rate: Rate, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        norm = clip_by_norm_(self.flat.grad, self.max_norm)
        self._step(learning_rate, norm + loss)
        return norm

    def _step(self, learning_rate: Rate, finite: Tensor) -> None:
        """Update, unless `finite` (norm + loss) is not finite. An overflow of the norm also skips the update."""
        is_finite = torch.isfinite(finite)
        self._skips.note(is_finite)
        if self._on_gpu:
            self.flat.grad.copy_(torch.where(is_finite, self.flat.grad, 0.0))
            self._apply_optimizer(learning_rate, is_finite)
        elif is_finite:
            self._apply_optimizer(learning_rate)

    def _apply_optimizer(self, learning_rate: Rate, finite: Tensor | None = None) -> None:
        self.optimizer.step(self.flat.data, self.flat.grad, learning_rate, finite)

    def verify(self) -> None:
        """Check what only a look at the parameters shows. RunError. Waits for a GPU; called at every row."""

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
        self._skips.set(state["skipped"], state["skipped_in_a_row"])
