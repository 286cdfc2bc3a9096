"""One test over all games of a setting: its interquartile mean is compared with that of a published source. A single
run per game is not enough to test one game, but all games together are enough to test the setting. The runs of a source
are unknown, but their mean, deviation and number in each game are published. Therefore the stratified bootstrap is
parametric: in each game, the mean of each side is drawn from a normal distribution, whose variance is estimated from
the seeds of both sides. tests/report/test_pooled.py measures the error and the power of the test over all games.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel_rl.report.aggregates import iqm_of_games
from accel_rl.report.non_inferiority import ERROR, MARGIN, Sample

DRAWS = 400


@dataclass(frozen=True)
class Pooled:
    """Interquartile means over games, human-normalised.

    `low` and `high` are the bounds of a 90 % interval of the difference, ours - published. `margin` is the fraction
    MARGIN of the published mean. `least` and `most` are the bounds of a 90 % interval of the difference + margin.
    """

    ours: float
    published: float
    low: float
    high: float
    least: float
    most: float

    @property
    def margin(self) -> float:
        return MARGIN * abs(self.published)

    @property
    def verdict(self) -> str:
        if self.least >= 0:
            return "not inferior"
        return "inferior" if self.most < 0 else "undecided"


def pooled(ours: Sequence[Sample], published: Sequence[Sample], reps: int) -> Pooled:
    """Compare human-normalised scores in at least LEAST_GAMES games. The samples `ours[i]` and `published[i]` are of
    game i."""
    means, deviations, seeds, freedoms = _arrays(ours, published)
    bounds = _bounds(means, deviations, seeds, freedoms, reps, np.random.default_rng(0))
    return Pooled(*map(float, (*iqm_of_games(means), *bounds)))


def chance(ours: Sequence[Sample], published: Sequence[Sample], reps: int) -> float:
    """The probability of the verdict "not inferior" for as many runs as in `ours`, if these runs have the published
    distribution. The probability is estimated from DRAWS simulated sets of runs."""
    rng = np.random.default_rng(1)
    means, deviations, seeds, freedoms = _arrays(ours, published)
    drawn = rng.normal(means[1], deviations[1] / np.sqrt(seeds), (DRAWS, *means.shape))
    known = np.maximum(freedoms, 1)
    spread = deviations[1] * np.sqrt(rng.chisquare(known, drawn.shape) / known)
    return float((_bounds(drawn, spread, seeds, freedoms, reps, rng)[2] >= 0).mean())


def _arrays(*sides: Sequence[Sample]) -> tuple[np.ndarray, ...]:
    """Means, deviations, seeds and degrees of freedom [2 sides, games]."""
    names = ("mean", "deviation", "seeds", "freedom")
    return tuple(np.array([[getattr(s, name) for s in side] for side in sides]) for name in names)


def _bounds(
    means: np.ndarray,
    deviations: np.ndarray,
    seeds: np.ndarray,
    freedoms: np.ndarray,
    reps: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, ...]:
    """Lower and upper bounds [...] of the difference of interquartile means, and of the difference + margin, for means
    and deviations [..., 2 sides, games]."""
    # In each game, both sides are assumed to have the same variance, estimated from the seeds of both sides.
    variance = (deviations**2 * freedoms).sum(-2, keepdims=True) / freedoms.sum(0)
    freedom = freedoms.sum() / 2  # The interquartile mean is over about half of the games.
    scale = np.sqrt(freedom / rng.chisquare(freedom, (reps, *(1,) * means.ndim)))
    drawn = means + scale * np.sqrt(variance / seeds) * rng.normal(size=(reps, *means.shape))
    first, second = np.moveaxis(iqm_of_games(drawn), -1, 0)
    differences = (first - second, first - second + MARGIN * np.abs(second))
    return tuple(x for d in differences for x in np.percentile(d, [100 * ERROR, 100 - 100 * ERROR], axis=0))
