"""Schedules on a GPU: scalars in memory that stays, so that a replayed update reads their current values."""

from collections.abc import Mapping

import torch

from accel_rl.algos.schedules import Schedules


class ScheduledTensors(Schedules):
    """The values of `Algorithm.schedules` are tensors [] on a device; the numbers of the run stay numbers."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def set(self, values: Mapping[str, float]) -> None:
        """Fill the scalars. The host does not wait."""
        for name, value in values.items():
            if name in vars(self):
                vars(self)[name].fill_(value)
            else:
                setattr(self, name, torch.full((), value, device=self._device))
