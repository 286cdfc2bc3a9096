"""The number of updates that were skipped because their loss or gradient was not finite."""

import torch
from torch import Tensor

from accel_rl.system.devices import is_gpu


class SkippedUpdates:
    """Counts skipped updates: on the host, or on the GPU that the parameters are on, without waiting for it."""

    def __init__(self, device: torch.device):
        on = device if is_gpu(device) else torch.device("cpu")
        self._total = torch.zeros((), dtype=torch.int64, device=on)
        self._in_a_row = torch.zeros((), dtype=torch.int64, device=on)

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

    def set(self, total: int, in_a_row: int) -> None:
        self._total.fill_(total)
        self._in_a_row.fill_(in_a_row)
