"""Tests whether runs are as good as published runs, from the mean, deviation and number of seeds of both. A score is
not inferior if it is at most a margin below the published score. The margin is the fraction MARGIN of the difference
between the published score and random play. The margin therefore depends neither on the unit of the score nor on its
sign (Skiing, Double Dunk), and can be written in human-normalised units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

MARGIN = 0.25
ERROR = 0.05
"""One-sided error of a test, and family-wise error of the tests of one setting in several games (Holm 1979)."""
ASSUMED_FREEDOM = 30  # Degrees of freedom of an assumed deviation, which is a median over many games
DRAWS = 2_000
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True)
class Sample:
    """Mean and standard deviation (with n - 1) of `seeds` scores. If a source publishes no deviation, the deviation is
    assumed (`assumed`)."""

    mean: float
    deviation: float
    seeds: int
    assumed: bool = False

    @property
    def freedom(self) -> int:
        return ASSUMED_FREEDOM if self.assumed else self.seeds - 1


def student(t: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """The cumulative distribution of Student's t [...] with `freedom` >= 1 degrees of freedom [...]. With t =
    sqrt(freedom) tan(x), the density is proportional to cos(x)^(freedom - 1), which is integrated by Gauss's rule."""

    def integral(end: np.ndarray) -> np.ndarray:
        x = end[..., None] / 2 * (NODES + 1)
        return end / 2 * (NODE_WEIGHTS * np.cos(x) ** (np.asarray(freedom)[..., None] - 1)).sum(-1)

    end = np.arctan(np.asarray(t) / np.sqrt(freedom))
    return 0.5 + integral(end) / (2 * integral(np.full_like(end, np.pi / 2)))


@cache
def student_quantile(p: float, freedom: float) -> float:
    """The quantile of Student's t distribution for a probability `p` above 0.5."""
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student(np.array(middle), np.array(freedom)) < p else (low, middle)
    return high


def not_lower(difference: np.ndarray, variances: Sequence[np.ndarray], freedoms: Sequence[np.ndarray]) -> np.ndarray:
    """The p-values [...] of Welch's one-sided test of the hypothesis that a difference of two means is at most 0.
    `variances` are the variances of the two means, and `freedoms` are the degrees of freedom of these variances."""
    variance = variances[0] + variances[1]
    parts = [(v**2 / f) for v, f in zip(variances, freedoms, strict=True)]
    freedom = variance**2 / np.maximum(parts[0] + parts[1], 1e-300)
    return 1 - student(difference / np.sqrt(variance), np.maximum(freedom, 1.0))


def welch(ours: Sample, published: Sample, margin: float) -> tuple[float, float, float]:
    """The p-values of three one-sided tests with `margin` > 0: that `ours` is not inferior, that `ours` is not
    superior, and that `ours` is inferior. If `ours` is neither inferior nor superior, it is equivalent."""
    samples = (ours, published)
    variances = [np.array(max(s.deviation, 1e-9) ** 2 / s.seeds) for s in samples]
    freedoms = [np.array(float(s.freedom)) for s in samples]
    difference = ours.mean - published.mean
    differences = (difference + margin, margin - difference, -margin - difference)
    first, second, third = (float(not_lower(np.array(d), variances, freedoms)) for d in differences)
    return first, second, third


def holm(p: np.ndarray) -> np.ndarray:
    """Adjusted p-values [..., games] of Holm's step-down method, which bounds the family-wise error over all games."""
    n = p.shape[-1]
    order = np.argsort(p, -1)
    steps = np.maximum.accumulate(np.take_along_axis(p, order, -1) * np.arange(n, 0, -1), -1)
    return np.minimum(np.take_along_axis(steps, np.argsort(order, -1), -1), 1.0)


def chances(published: Sequence[Sample], seeds: Sequence[int], margins: Sequence[float]) -> np.ndarray:
    """For each game, the probability of the verdict "not inferior" if runs have the published distribution. The
    verdicts are those of Holm's method, which bounds the family-wise error over all games. The probabilities are
    estimated from DRAWS simulated sets of runs."""
    rng = np.random.default_rng(0)
    deviations = np.array([s.deviation for s in published])
    counts = [np.array(seeds), np.array([s.seeds for s in published])]
    means = [rng.normal(0, deviations / np.sqrt(n), (DRAWS, len(published))) for n in counts]
    variances = [deviations**2 * rng.chisquare(n - 1, means[0].shape) / (n - 1) / n for n in counts]
    p = not_lower(means[0] - means[1] + np.array(margins), variances, [n - 1.0 for n in counts])
    return np.asarray((holm(p) <= ERROR).mean(0))


def prediction_interval(published: Sample, seeds: int) -> tuple[float, float]:
    """The 95 % interval for the mean of `seeds` further runs of the published distribution."""
    half = student_quantile(0.975, published.freedom) * published.deviation * np.sqrt(1 / seeds + 1 / published.seeds)
    return published.mean - half, published.mean + half


def verdict(p: tuple[float, float, float]) -> str:
    """The verdict that follows from the adjusted p-values `p` of `welch`."""
    not_inferior, not_superior, inferior = (x <= ERROR for x in p)
    if not_inferior:
        return "equivalent" if not_superior else "not inferior"
    return "inferior" if inferior else "undecided"
