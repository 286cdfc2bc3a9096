"""The recorder averages the metrics of the updates between two rows of metrics.csv."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.metrics.update_metrics import UpdateMetrics


class Recorder:
    """Means of metrics over the updates since the last row of metrics.csv. Metrics stay tensors until a row is written,
    so that no update synchronizes with a GPU."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], Tensor] = {}  # Maps a tuple of names of metrics to their sums.
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, metrics: UpdateMetrics) -> None:
        names, sums = metrics.names, metrics.sums
        self._sums[names] = self._sums[names] + sums if names in self._sums else sums.clone()
        self._counts[names] = self._counts.get(names, 0) + metrics.updates

    def means(self) -> dict[str, float]:
        """Return the means, and reset the sums. Synchronizes once with a GPU."""
        groups = list(self._sums)
        totals = torch.cat([self._sums[g] for g in groups]).tolist() if groups else []
        names = [(name, self._counts[g]) for g in groups for name in g]
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        # Several tuples of names may contain the same metric.
        for (name, n), total in zip(names, totals, strict=True):
            sums[name], counts[name] = sums.get(name, 0.0) + total, counts.get(name, 0) + n
        self._sums, self._counts = {}, {}
        return {name: total / counts[name] for name, total in sums.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"groups": [{"names": list(g), "sums": x, "updates": self._counts[g]} for g, x in self._sums.items()]}

    def load_state_dict(self, state: dict[str, Any], device: torch.device | str = "cpu") -> None:
        """`device` is the device of the metrics that will be added after the state is loaded."""
        self._sums = {tuple(g["names"]): g["sums"].to(device) for g in state["groups"]}
        self._counts = {tuple(g["names"]): g["updates"] for g in state["groups"]}
