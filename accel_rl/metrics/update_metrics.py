"""Metrics of updates."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class UpdateMetrics:
    """Sums of scalars over some updates. They stay on the learner's device until a row of metrics is written.

    names: M names. sums [M] float64. updates: number of updates.
    """

    names: tuple[str, ...]
    sums: Tensor
    updates: int

    @classmethod
    def of(cls, values: dict[str, Tensor]) -> "UpdateMetrics":
        """The metrics of one update: scalars [] by name."""
        return cls(tuple(values), torch.stack([x.detach().double() for x in values.values()]), 1)

    def prefixed(self, prefix: str) -> "UpdateMetrics":
        """Put a prefix before each name."""
        return UpdateMetrics(tuple(prefix + n for n in self.names), self.sums, self.updates) if prefix else self

    def means(self) -> dict[str, float]:
        """Return the means over the updates. Waits for a GPU."""
        return dict(zip(self.names, (self.sums / self.updates).tolist(), strict=True))
