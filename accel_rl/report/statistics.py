"""Aggregates over games with bootstrap intervals, by rliable (Agarwal et al. 2021, arXiv:2108.13264). Extra: report."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel_rl.report.papers import percent, published
from accel_rl.report.run import Run
from accel_rl.system.errors import ConfigError

INSTALL = "pip install 'accel_rl[report]'"
TAUS = np.linspace(0.0, 2.0, 41)
"""Human-normalised scores (shares) at which profiles are evaluated."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % bootstrap interval over seeds, stratified by game; NaN bounds for one seed."""

    value: float
    low: float
    high: float


def check_rliable() -> None:
    """Raise ConfigError if the extra is missing."""
    try:
        import rliable  # noqa: F401
    except ImportError as e:
        raise ConfigError(f"accel-rl report needs the extra report: {INSTALL}") from e


def matrix(games: Mapping[str, Sequence[Run]], which: str) -> tuple[list[str], np.ndarray]:
    """Return (games, human-normalised scores as shares [seeds, games]) of one setting.

    Games: those with published scores and at least one score. Seeds: the number that every game has.
    """
    usable = {
        game: [percent(game, r.score(which)) / 100 for r in runs if not np.isnan(r.score(which))]
        for game, runs in games.items()
        if published(game)
    }
    usable = {game: scores for game, scores in usable.items() if scores}
    n = min((len(scores) for scores in usable.values()), default=0)
    return list(usable), np.array([scores[:n] for scores in usable.values()]).T.reshape(n, len(usable))


@dataclass(frozen=True)
class Summary:
    """Aggregates of one setting over its games.

    median: over games, of the mean over seeds. iqm: interquartile mean over all runs. share [TAUS]: share of runs above
    each of TAUS, with its interval.
    """

    median: Interval
    iqm: Interval
    share: np.ndarray
    share_low: np.ndarray
    share_high: np.ndarray


def summarise(scores: np.ndarray, reps: int) -> Summary:
    """Summarise human-normalised scores [seeds, games], with intervals from `reps` bootstrap samples."""
    from rliable import metrics

    def all_of(x: np.ndarray) -> np.ndarray:
        shares = (x[:, :, None] > TAUS).mean((0, 1))
        return np.array([metrics.aggregate_median(x), metrics.aggregate_iqm(x), *shares])

    values = all_of(scores)
    low, high = _interval(scores, all_of, reps)
    median, iqm = (Interval(float(values[i]), float(low[i]), float(high[i])) for i in range(2))
    return Summary(median, iqm, values[2:], low[2:], high[2:])


def _interval(scores: np.ndarray, of: Callable[[np.ndarray], np.ndarray], reps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (low, high) of the statistics `of`; NaN for one seed. Deterministic: the generator has a fixed seed."""
    from rliable import library

    if len(scores) < 2:
        nothing = np.full_like(of(scores), np.nan)
        return nothing, nothing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # caused by rliable's use of arch
        _, found = library.get_interval_estimates({"": scores}, of, reps=reps, random_state=np.random.RandomState(0))
    low, high = found[""]
    return low, high
