"""Learning curves: the mean over seeds, with the spread, on a grid common to them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel_rl.report.runs import Run

POINTS = 100
KINDS = ("training", "evaluation")


@dataclass(frozen=True)
class Band:
    """Arrays [POINTS], or fewer: env steps, the mean over `seeds` runs, their least and greatest. `what`: training or
    evaluation scores."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int
    what: str


def band(runs: Sequence[Run], evaluations: bool) -> Band | None:
    """Where all runs that have values have them; None where none has, or they have no steps in common."""
    columns = [c for r in runs if (c := r.evaluations if evaluations else r.online)[0].size]
    if not columns:
        return None
    low, high = max(x[0] for x, _ in columns), min(x[-1] for x, _ in columns)
    if low > high:
        return None
    if len(columns) == 1 or low == high:
        n = min(POINTS, len(columns[0][0])) if low < high else 1
    else:
        n = min(POINTS, max(len(x) for x, _ in columns))
    grid = np.linspace(low, high, n)
    values = np.stack([np.interp(grid, x, y) for x, y in columns])
    return Band(grid, values.mean(0), values.min(0), values.max(0), len(columns), KINDS[evaluations])


def shows_evaluations(runs: Sequence[Run], curve: str) -> bool:
    """Of one game. `curve`: online, evaluation, or auto: evaluations where every run has three, or none has a training
    score."""
    if curve == "auto":
        return all(len(r.evaluations[0]) >= 3 for r in runs) or not any(r.online[0].size for r in runs)
    return curve == "evaluation"
