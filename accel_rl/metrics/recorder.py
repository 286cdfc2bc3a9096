"""Collects metrics between two rows."""

from typing import Any

import numpy as np
import torch
from torch import Tensor


class Recorder:
    """Means over the updates since the last row. Values stay tensors until then: nothing here synchronises."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def add(self, metrics: dict[str, Tensor]) -> None:
        for name, value in metrics.items():
            value = value.detach().double()
            self._sums[name] = self._sums[name] + value if name in self._sums else value
            self._counts[name] = self._counts.get(name, 0) + 1

    def means(self) -> dict[str, float]:
        """Return the means, and start again."""
        names = list(self._sums)
        values = torch.stack([self._sums[n] for n in names]).tolist() if names else []  # one synchronisation
        means = {n: v / self._counts[n] for n, v in zip(names, values, strict=True)}
        self._sums, self._counts = {}, {}
        return means

    def state_dict(self) -> dict[str, Any]:
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums, self._counts = dict(state["sums"]), dict(state["counts"])


def episode_metrics(recent: list[tuple[float, int]]) -> dict[str, float]:
    """Mean score and length over the most recent episodes; NaN before the first one ends."""
    if not recent:
        return {"score": float("nan"), "score_std": float("nan"), "length": float("nan")}
    scores, lengths = zip(*recent, strict=True)
    return {"score": float(np.mean(scores)), "score_std": float(np.std(scores)), "length": float(np.mean(lengths))}
