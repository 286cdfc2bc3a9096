"""Aggregates over games with honest intervals: rliable (Agarwal et al. 2021, arXiv:2108.13264). Extra: report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_rl.errors import ConfigError
from accel_rl.report.papers import percent, published
from accel_rl.report.runs import Run

INSTALL = "pip install 'accel_rl[report]'"
TAUS = np.linspace(0.0, 2.0, 41)
"""Human-normalised scores, as shares, at which a profile is read."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % bootstrap interval over seeds, stratified by game; NaN where there is one seed alone."""

    value: float
    low: float
    high: float


def check_rliable() -> None:
    """ConfigError if the extra is missing."""
    try:
        import rliable  # noqa: F401
    except ImportError as e:
        raise ConfigError(f"accel-rl report needs the extra report: {INSTALL}") from e


def matrix(games: Mapping[str, Sequence[Run]], which: str) -> tuple[list[str], np.ndarray]:
    """Of one setting: the games with published scores in which every run has a score, and human-normalised scores as
    shares [seeds, games]; seeds: as many as every game has."""
    usable = {
        game: [percent(game, r.score(which)) / 100 for r in runs if not np.isnan(r.score(which))]
        for game, runs in games.items()
        if published(game)
    }
    usable = {game: scores for game, scores in usable.items() if scores}
    n = min((len(scores) for scores in usable.values()), default=0)
    return list(usable), np.array([scores[:n] for scores in usable.values()]).T.reshape(n, len(usable))


def aggregates(scores: np.ndarray, reps: int) -> dict[str, Interval]:
    """Median over games of the mean over seeds, and interquartile mean over all runs, of scores [seeds, games]."""
    from rliable import library, metrics

    def both(x: np.ndarray) -> np.ndarray:
        return np.array([metrics.aggregate_median(x), metrics.aggregate_iqm(x)])

    values = both(scores)
    low = high = np.full(2, np.nan)
    if len(scores) > 1:
        _, intervals = library.get_interval_estimates({"": scores}, both, reps=reps, generator=_random())
        low, high = intervals[""]
    return {name: Interval(values[i], low[i], high[i]) for i, name in enumerate(("median", "iqm"))}


def profile(scores: np.ndarray, reps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share of runs above each of TAUS, and its interval: (share, low, high), each [TAUS]."""
    from rliable import library

    shares = (scores[:, :, None] > TAUS).mean((0, 1))
    if len(scores) < 2:
        return shares, np.full(len(TAUS), np.nan), np.full(len(TAUS), np.nan)
    _, intervals = library.get_interval_estimates(
        {"": scores}, lambda x: (x[:, :, None] > TAUS).mean((0, 1)), reps=reps, generator=_random()
    )
    low, high = intervals[""]
    return shares, low, high


def _random() -> Any:
    return np.random.RandomState(0)  # the same report of the same runs
