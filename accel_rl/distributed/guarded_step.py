"""If the loss or the gradient is not finite, the optimizer step is skipped, and the skipped update is counted."""

import math
from typing import Any

import torch
from torch import Tensor

from accel_rl.data.page_locked import page_locked_zeros
from accel_rl.machine.devices import Device
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.optimizer import Optimizer, Rate


class SkippedUpdates:
    """Counts the updates that were skipped because of a non-finite loss or gradient. The counts are
    stored on the parameters' device."""

    def __init__(self, device: torch.device):
        self._counts = torch.zeros(2, dtype=torch.int64, device=device)
        self._total, self._in_a_row = self._counts[0], self._counts[1]
        self._seen = self._counts
        if Device(device).queues_work:
            self._seen = page_locked_zeros((2,), torch.int64, device)

    def count(self, skipped: Tensor) -> None:
        """Count an update. `skipped` [] bool is true if the update was skipped."""
        self._counts.add_(skipped)
        self._in_a_row.mul_(skipped)

    @property
    def total(self) -> int:
        """The number of skipped updates. Synchronizes with a GPU."""
        return int(self._total)

    @property
    def in_a_row(self) -> int:
        """The number of consecutive updates that have been skipped until now. Synchronizes with a GPU."""
        return int(self._in_a_row)

    @property
    def seen_in_a_row(self) -> int:
        """The number of consecutive skipped updates at the last copy to the host (`show`)."""
        return int(self._seen[1])

    def show(self) -> None:
        """Start a copy of the counts of skipped updates to the host, without synchronizing with the GPU."""
        if self._seen is not self._counts:
            self._seen.copy_(self._counts, non_blocking=True)

    def state_dict(self) -> dict[str, int]:
        return {"skipped": self.total, "skipped_in_a_row": self.in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._total.fill_(state["skipped"])
        self._in_a_row.fill_(state["skipped_in_a_row"])
        if self._seen is not self._counts:
            self._seen.copy_(torch.tensor([state["skipped"], state["skipped_in_a_row"]]))


class GuardedStep:
    """Clips the gradient in `flat.grad`, and steps the optimizer unless the loss or the gradient is not
    finite.

    On a GPU, the GPU checks whether loss and gradient are finite, and the host does not wait for the result. If an
    update is skipped, the gradient becomes zero, the optimizer's state does not change, and the GPU counts the update.
    """

    def __init__(self, flat: FlatParameters, optimizer: Optimizer, max_norm: float | None):
        """The gradient is clipped to the L2 norm `max_norm`, and not clipped if `max_norm` is None."""
        self.flat = flat
        self.optimizer = optimizer
        self.max_norm = max_norm
        self.skips = SkippedUpdates(flat.data.device)
        self.knows_on_gpu = not flat.data.is_cpu  # Whether only the GPU knows which updates are skipped

    def __call__(self, learning_rate: Rate, loss: Tensor) -> Tensor:
        """Clip the gradient, and make one update. The argument `loss` [] is the minimised loss. Return the gradient's
        norm before clipping, []."""
        norm = clip_by_norm_(self.flat.grad, self.max_norm)
        self.of_clipped(learning_rate, norm + loss)
        return norm

    def of_clipped(self, learning_rate: Rate, total: Tensor) -> None:
        """Make one update from a clipped gradient, unless `total` [], the sum of gradient norm and loss, is not
        finite."""
        is_finite = total.abs() < math.inf  # `isfinite` would launch four kernels on a GPU.
        is_skipped = ~is_finite
        self.skips.count(is_skipped)
        data, grad = self.flat.data, self.flat.grad
        if self.knows_on_gpu:
            grad.masked_fill_(is_skipped, 0.0)
            self.optimizer.step(data, grad, learning_rate, is_finite)
        elif is_finite:
            self.optimizer.step(data, grad, learning_rate)

    def state_dict(self) -> dict[str, Any]:
        return {"parameters": self.flat.data, "optimizer": self.optimizer.state_dict(), **self.skips.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.flat.data.copy_(state["parameters"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.skips.load_state_dict(state)
