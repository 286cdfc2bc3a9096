"""Aggregates over games with honest intervals: rliable (Agarwal et al. 2021, arXiv:2108.13264). Extra: report."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
    from rliable import metrics

    def both(x: np.ndarray) -> np.ndarray:
        return np.array([metrics.aggregate_median(x), metrics.aggregate_iqm(x)])

    low, high = _interval(scores, both, reps)
    return {
        name: Interval(v, low[i], high[i])
        for i, (name, v) in enumerate(zip(("median", "iqm"), both(scores), strict=True))
    }


def profile(scores: np.ndarray, reps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share of runs above each of TAUS, and its interval: (share, low, high), each [TAUS]."""

    def shares(x: np.ndarray) -> np.ndarray:
        return (x[:, :, None] > TAUS).mean((0, 1))

    return (shares(scores), *_interval(scores, shares, reps))


def _interval(scores: np.ndarray, of: Callable[[np.ndarray], np.ndarray], reps: int) -> tuple[np.ndarray, np.ndarray]:
    """(low, high), each as `of` returns; NaN for one seed. The same every time: the generator has a fixed seed."""
    from rliable import library

    if len(scores) < 2:
        nothing = np.full_like(of(scores), np.nan)
        return nothing, nothing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # rliable's own, of how it hands the generator to arch
        _, found = library.get_interval_estimates({"": scores}, of, reps=reps, random_state=np.random.RandomState(0))
    low, high = found[""]
    return low, high
