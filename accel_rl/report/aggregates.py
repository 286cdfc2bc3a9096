"""This module aggregates scores over games, with bootstrap intervals, and draws performance profiles (Agarwal et al.
2021, arXiv:2108.13264)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel_rl.metrics.plot import picture, pyplot
from accel_rl.papers.published import percent, published
from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import BySetting, Run

TAUS = np.linspace(0.0, 2.0, 41)
"""Performance profiles are evaluated at the human-normalised scores `TAUS`, where 1 is the human score."""
SIZE = 95  # Bootstrap intervals cover 95 percent.


@dataclass(frozen=True)
class Interval:
    """An `Interval` is an estimate with its 95 % bootstrap interval over seeds, stratified by game. With one seed, the
    bounds of the interval are NaN."""

    value: float
    low: float
    high: float


def matrix(games: Mapping[str, Sequence[Run]], which: str) -> tuple[list[str], np.ndarray]:
    """Return (games, human-normalised scores [seeds, games]) of one setting, where a score of 1 is the human score. The
    games are those for which published scores and at least one score of the setting exist. The number of seeds is the
    largest that all of these games have."""
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
    """A `Summary` has the aggregates of one setting over its games. `median` is the median over games of the mean over
    seeds. `iqm` is the interquartile mean over all runs. `share` [TAUS] is the fraction of runs above each score in
    TAUS."""

    median: Interval
    iqm: Interval
    share: np.ndarray
    share_low: np.ndarray
    share_high: np.ndarray


def iqm(scores: np.ndarray) -> np.ndarray:
    """Return the interquartile mean [...] over the last axis, which is the mean without the lowest and highest
    quarter."""
    n = scores.shape[-1]
    cut = n // 4
    return np.sort(scores, axis=-1)[..., cut : n - cut].mean(-1)


def statistics(scores: np.ndarray) -> np.ndarray:
    """Return [..., 2 + TAUS] for scores [..., seeds, games]: the median, the interquartile mean, and the fractions of
    runs above TAUS. The median is taken over games, after a mean over seeds. The interquartile mean and the fractions
    are taken over all runs."""
    runs = scores.reshape(*scores.shape[:-2], -1)
    median = np.median(scores.mean(-2), -1)
    shares = [(runs > tau).mean(-1) for tau in TAUS]
    return np.stack([median, iqm(runs), *shares], -1)


def summarise(scores: np.ndarray, reps: int) -> Summary:
    """Summarise human-normalised scores [seeds, games], with intervals from `reps` bootstrap samples."""
    values = statistics(scores)
    low, high = bootstrap(scores, reps)
    median, mean = (Interval(float(values[i]), float(low[i]), float(high[i])) for i in range(2))
    return Summary(median, mean, values[2:], low[2:], high[2:])


def bootstrap(scores: np.ndarray, reps: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the percentile intervals of `statistics`, or NaN for one seed. A bootstrap sample draws the
    seeds of each game independently, with replacement (stratified by game)."""
    seeds, games = scores.shape
    if seeds < 2:
        unknown = np.full(2 + len(TAUS), np.nan)
        return unknown, unknown
    drawn = np.random.default_rng(seed).integers(seeds, size=(reps, seeds, games))
    result = statistics(np.take_along_axis(np.broadcast_to(scores, drawn.shape), drawn, axis=1))
    low, high = np.percentile(result, [50 - SIZE / 2, 50 + SIZE / 2], axis=0)
    return low, high


def probability_of_improvement(x: np.ndarray, y: np.ndarray) -> float:
    """Return the probability that a run of x [seeds, games] is better than a run of y [seeds, games], averaged over
    games. Ties count half (the statistic of Mann & Whitney)."""
    pairs = x[:, None] - y[None]
    return float(((pairs > 0) + 0.5 * (pairs == 0)).mean())


PAPERS = {"dqn": "DQN (Mnih et al. 2015)", "gorila": "Gorila (Nair et al. 2015)", "daley": "Daley & Amato 2021"}
Matrices = Mapping[str, tuple[list[str], np.ndarray]]


def normalised(settings: BySetting, which: str) -> Matrices:
    """Return {label: (games, human-normalised scores [seeds, games])} of each setting and of the papers."""
    matrices: dict[str, tuple[list[str], np.ndarray]] = {}
    for setting, result in settings.items():
        games, scores = matrix(result, which)
        if scores.size:
            matrices[setting] = (games, scores)
    ours = sorted({g for games, _ in matrices.values() for g in games})
    for name, label in PAPERS.items() if ours else ():
        matrices[label] = (ours, np.array([[percent(g, published(g)[name]) / 100 for g in ours]]))
    return matrices


def aggregates_table(matrices: Matrices, summaries: Mapping[str, Summary]) -> Table:
    rows = []
    for label, s in summaries.items():
        games, scores = matrices[label]
        cells = [number(100 * x, 1) for v in (s.median, s.iqm) for x in (v.value, v.low, v.high)]
        rows.append([label, str(len(games)), str(len(scores)), *cells])
    columns = ["setting", "games", "seeds", "median %", "low", "high", "IQM %", "low", "high"]
    note = (
        "Human-normalised, over the games with published scores. Median over games of the mean over seeds; "
        "interquartile mean over all runs; 95 % intervals by a bootstrap over seeds, stratified by game; no "
        "interval for one seed. Rows of papers: the printed scores, over all games that any setting has. Rows over "
        "different games are not comparable."
    )
    return Table("aggregates", "Aggregates over games", columns, rows, note)


def profiles_table(summaries: Mapping[str, Summary]) -> Table:
    rows = [
        [label, number(100 * t, 0), number(share, 4), number(low, 4), number(high, 4)]
        for label, s in summaries.items()
        for t, share, low, high in zip(TAUS, s.share, s.share_low, s.share_high, strict=True)
    ]
    return Table("profiles", "Performance profiles", ["setting", "t %", "share above", "low", "high"], rows)


def improvements_table(matrices: Matrices, settings: Sequence[str]) -> Table:
    """Build a table with the probability of improvement for each pair of settings that have scores in the same
    games."""
    rows = []
    for i, first in enumerate(settings):
        for second in settings[i + 1 :]:
            (games, x), (others, y) = matrices[first], matrices[second]
            common = [game for game in games if game in others]
            if common:
                x = x[:, [games.index(game) for game in common]]
                y = y[:, [others.index(game) for game in common]]
                rows.append([first, second, str(len(common)), number(probability_of_improvement(x, y), 3)])
    note = "Probability that a run of the first setting has a higher score than one of the second, mean over games."
    columns = ["setting", "than", "games", "probability"]
    return Table("improvements", "Probability of improvement", columns, rows, note)


def intervals(summaries: Mapping[str, Summary], colour: Mapping[str, object]) -> bytes:
    """Draw median and interquartile mean of each setting with their intervals, in percent, as a PNG."""
    figure, axes = pyplot().subplots(  # type: ignore[attr-defined]
        1, 2, figsize=(10, 0.32 * len(summaries) + 1.4), dpi=100, sharey=True, layout="constrained"
    )
    for i, (setting, summary) in enumerate(summaries.items()):
        for panel, v in zip(axes, (summary.median, summary.iqm), strict=True):
            c = colour.get(setting, "0.4")
            if np.isfinite(v.low):
                panel.plot([100 * v.low, 100 * v.high], [i, i], color=c, linewidth=8, alpha=0.35, solid_capstyle="butt")
            panel.plot([100 * v.value], [i], marker="|", markersize=14, color=c)
    for panel, title in zip(axes, ("median", "interquartile mean"), strict=True):
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("% between random and human", fontsize=8)
        panel.grid(alpha=0.3, axis="x")
        panel.tick_params(labelsize=8)
    axes[0].set_yticks(range(len(summaries)), list(summaries), fontsize=8)
    axes[0].set_ylim(len(summaries) - 0.5, -0.5)
    return picture(figure)


def profiles(summaries: Mapping[str, Summary], colour: Mapping[str, object]) -> bytes:
    """Draw performance profiles, the share of runs above a human-normalised score, as a PNG."""
    columns = 2 if max(map(len, summaries), default=0) > 30 else 3
    # Each line of the legend is 0.19 inches high.
    height = 4.0 + 0.19 * -(-len(summaries) // columns)
    figure, panel = pyplot().subplots(figsize=(8, height), dpi=100, layout="constrained")  # type: ignore[attr-defined]
    greys = iter(("--", ":", "-."))
    for setting, s in summaries.items():
        ours = setting in colour
        c, style = (colour[setting], "-") if ours else ("0.4", next(greys))
        panel.plot(100 * TAUS, s.share, color=c, label=setting, linestyle=style, linewidth=1.4)
        if np.isfinite(s.share_low).all():
            panel.fill_between(100 * TAUS, s.share_low, s.share_high, color=c, alpha=0.2, linewidth=0)
    panel.set_xlabel("score t, % between random and human", fontsize=9)
    panel.set_ylabel("share of runs above t", fontsize=9)
    panel.set_ylim(-0.02, 1.02)
    panel.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=columns, fontsize=8)
    return picture(figure)
