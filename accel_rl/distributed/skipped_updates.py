"""The number of updates that were skipped because their loss or gradient was not finite."""

import torch
from torch import Tensor

from accel_rl.data.page_locked import page_locked_zeros
from accel_rl.system.devices import Device


class SkippedUpdates:
    """Counts skipped updates: on the host, or on the GPU that the parameters are on, without waiting for it."""

    def __init__(self, device: torch.device):
        self._counts = torch.zeros(2, dtype=torch.int64, device=device)
        self._total, self._in_a_row = self._counts[0], self._counts[1]
        self._seen = self._counts
        if Device(device).queues_work:
            self._seen = page_locked_zeros((2,), torch.int64, Device(device).runtime)

    def note(self, finite: Tensor) -> None:
        """Note an update. finite [] bool, where the parameters are: whether the update was made."""
        self._total.add_(~finite)
        self._in_a_row.add_(1).mul_(~finite)

    @property
    def total(self) -> int:
        """Number of skipped updates. Waits for a GPU."""
        return int(self._total)

    @property
    def in_a_row(self) -> int:
        """Number of skipped updates since the last one that was made. Waits for a GPU."""
        return int(self._in_a_row)

    @property
    def seen_in_a_row(self) -> int:
        """The value of `in_a_row` that the host saw last."""
        return int(self._seen[1])

    def show(self) -> None:
        """Copy the counts to the host, without waiting for the GPU."""
        if self._seen is not self._counts:
            self._seen.copy_(self._counts, non_blocking=True)

    def set(self, total: int, in_a_row: int) -> None:
        self._total.fill_(total)
        self._in_a_row.fill_(in_a_row)
        if self._seen is not self._counts:
            self._seen.copy_(torch.tensor([total, in_a_row]))


class CountsSkipped:
    """The part of a `GradientSync` that counts skipped updates."""

    def __init__(self, device: torch.device):
        self._skips = SkippedUpdates(device)

    @property
    def skipped(self) -> int:
        return self._skips.total

    @property
    def skipped_in_a_row(self) -> int:
        return self._skips.in_a_row

    @property
    def seen_skipped_in_a_row(self) -> int:
        return self._skips.seen_in_a_row

    def show_skipped(self) -> None:
        self._skips.show()
