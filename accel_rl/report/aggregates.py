"""Statistics over games, with stratified bootstrap intervals over seeds (Agarwal et al. 2021, arXiv:2108.13264).

All seeds of a game are used, and all games have equal weight: each of the n runs of a game has the weight 1 / n. If all
games have equally many seeds, the statistics are those of the library rliable.
"""

from collections.abc import Mapping, Sized
from dataclasses import dataclass

import numpy as np

from accel_rl.envs.atari_games import human_scale

TAUS = np.linspace(0.0, 2.0, 41)
"""Performance profiles are evaluated at the human-normalised scores `TAUS`, where 1 is the human score."""
SIZE = 95  # Bootstrap intervals cover 95 percent.
QUARTER = 0.25 + 1e-9  # A quarter, plus the rounding error of sums of weights such as 0.05
LEAST_GAMES = 4  # With fewer than LEAST_GAMES games, the interquartile mean would equal the mean.
NAMES = ("median", "iqm", "mean", "gap")

Scores = Mapping[str, np.ndarray]
"""{game: human-normalised scores [seeds]}, where a score of 1 is the human score. The number of seeds may differ
between games."""


def normalised(game: str, scores: np.ndarray, scale: str) -> np.ndarray:
    """Human-normalised scores [...], where 1 is the human score of the scale, or NaN for a game that the scale does not
    contain."""
    random, human = human_scale(game, scale) or (np.nan, np.nan)
    return (scores - random) / (human - random)


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % bootstrap interval. The bounds are NaN if every game has one seed."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """Aggregates of one setting.

    `median` and `mean` are the median and the mean over games of the mean over seeds. `iqm` is the interquartile mean
    over runs. `gap` is the optimality gap, the mean amount by which runs miss the human score. `share` [TAUS] is the
    fraction of runs above each score in TAUS.
    """

    median: Interval
    iqm: Interval
    mean: Interval
    gap: Interval
    share: np.ndarray
    share_low: np.ndarray
    share_high: np.ndarray


def weights(scores: Scores) -> np.ndarray:
    """The weight of each run [runs], in the order of games and seeds. The sum of all weights is 1."""
    return np.concatenate([np.full(len(x), 1 / (len(x) * len(scores))) for x in scores.values()])


def iqm(runs: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The interquartile mean [...] of runs [..., n] with weights [n]. A run is omitted if its weight, plus the weights
    of all lower runs or of all higher runs, is at most 1/4. If no run would be omitted, as with three runs, the result
    would be the mean, so NaN is returned."""
    order = np.argsort(runs, axis=-1)
    ordered, w = np.take_along_axis(runs, order, -1), weight[order]
    kept = w * ((np.cumsum(w, -1) > QUARTER) & (np.cumsum(w[..., ::-1], -1)[..., ::-1] > QUARTER))
    return np.where(weight.min() > QUARTER, np.nan, (ordered * kept).sum(-1) / kept.sum(-1))


def iqm_of_games(means: np.ndarray) -> np.ndarray:
    """The interquartile mean [...] of games with equal weights, for a score of each game [..., games]."""
    return iqm(means, np.full(means.shape[-1], 1 / means.shape[-1]))


def statistics(runs: np.ndarray, scores: Scores) -> np.ndarray:
    """The statistics of a `Summary`, [..., NAMES + TAUS], for runs [..., n] in the order of games and seeds of
    `scores`."""
    weight = weights(scores)
    ends = np.cumsum([len(x) for x in scores.values()])
    of_games = np.stack([x.mean(-1) for x in np.split(runs, ends[:-1], axis=-1)], -1)
    gap = (np.maximum(1 - runs, 0) * weight).sum(-1)
    shares = [((runs > tau) * weight).sum(-1) for tau in TAUS]
    return np.stack([np.median(of_games, -1), iqm(runs, weight), of_games.mean(-1), gap, *shares], -1)


def resampled(scores: Scores, reps: int, seed: int = 0) -> np.ndarray:
    """Bootstrap samples [reps, n] of the runs: the seeds of each game are drawn with replacement, independently of
    other games (stratified by game)."""
    rng = np.random.default_rng(seed)
    return np.concatenate([_redrawn(x, reps, rng) for x in scores.values()], -1)


def _redrawn(x: np.ndarray, reps: int, rng: np.random.Generator) -> np.ndarray:
    """Bootstrap samples [reps, n] of the scores x [n]."""
    return x[rng.integers(len(x), size=(reps, len(x)))]


def summarise(scores: Scores, reps: int) -> Summary:
    """The `Summary` of human-normalised scores, with intervals from `reps` bootstrap samples."""
    values = statistics(np.concatenate([*scores.values()]), scores)
    low = high = np.full(len(values), np.nan)
    if max(map(len, scores.values())) > 1:
        low, high = percentiles(statistics(resampled(scores, reps), scores))
    bounds = (x[: len(NAMES)].tolist() for x in (values, low, high))
    median, middle, mean, gap = map(Interval, *bounds)
    return Summary(median, middle, mean, gap, *(x[len(NAMES) :] for x in (values, low, high)))


def percentiles(samples: np.ndarray) -> np.ndarray:
    """The lower and the upper bound [2, ...] of the 95 % percentile interval of samples [reps, ...]."""
    return np.asarray(np.percentile(samples, [50 - SIZE / 2, 50 + SIZE / 2], axis=0))


def improvement(x: Scores, y: Scores, reps: int) -> Interval:
    """The probability that a run of x is better than a run of y in the same game, averaged over the games that both
    have. Ties count half (the statistic of Mann & Whitney). The scores may be raw or human-normalised."""
    games = [game for game in x if game in y]
    xs, ys = ({game: scores[game] for game in games} for scores in (x, y))

    def probability(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The probability of improvement [...], from the scores [..., n] of x and [..., m] of y."""
        ends = (np.cumsum([len(s) for s in scores.values()])[:-1] for scores in (xs, ys))
        halves = [np.split(runs, end, -1) for runs, end in zip((first, second), ends, strict=True)]
        pairs = [a[..., :, None] - b[..., None, :] for a, b in zip(*halves, strict=True)]
        return np.mean([((d > 0) + 0.5 * (d == 0)).mean((-2, -1)) for d in pairs], axis=0)

    value = float(probability(*(np.concatenate([*scores.values()]) for scores in (xs, ys))))
    if max(len(s) for scores in (xs, ys) for s in scores.values()) < 2:
        return Interval(value, np.nan, np.nan)
    low, high = percentiles(probability(resampled(xs, reps, 1), resampled(ys, reps, 2)))
    return Interval(value, float(low), float(high))


def difference(x: Scores, y: Scores, reps: int) -> Interval:
    """The interquartile mean of x minus that of y, over the games that both have, of the mean score over seeds. The
    interval is that of a paired bootstrap: games are drawn with replacement, and the seeds of both settings within each
    game. NaN for fewer than LEAST_GAMES common games."""
    games = [game for game in x if game in y]
    if len(games) < LEAST_GAMES:
        return Interval(np.nan, np.nan, np.nan)
    rng = np.random.default_rng(0)
    first, second = (iqm_of_games(np.array([scores[game].mean() for game in games])) for scores in (x, y))
    index = rng.integers(len(games), size=(reps, len(games)))
    means = [np.stack([_redrawn(scores[game], reps, rng).mean(-1) for game in games], -1) for scores in (x, y)]
    firsts, seconds = (iqm_of_games(np.take_along_axis(m, index, -1)) for m in means)
    low, high = percentiles(firsts - seconds)
    return Interval(float(first - second), float(low), float(high))


def seeds(scores: Mapping[str, Sized]) -> str:
    """A text with the number of seeds per game, such as "3" or "1 to 3"."""
    counts = [len(x) for x in scores.values()]
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
