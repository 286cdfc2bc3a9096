"""The report's section of aggregates over games: tables, intervals and performance profiles."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from accel_rl.envs.atari_games import human_scale
from accel_rl.metrics.plot import colours, literal, picture, subplots
from accel_rl.papers.published import published
from accel_rl.report.aggregates import (
    NAMES,
    SIZE,
    TAUS,
    Interval,
    Scores,
    Summary,
    difference,
    improvement,
    normalised,
    seeds,
    summarise,
)
from accel_rl.report.page import NARROW
from accel_rl.results.section import Picture, Section
from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import BySetting

PAPERS = {"dqn": "DQN (Mnih et al. 2015)", "gorila": "Gorila (Nair et al. 2015)", "daley": "Daley & Amato 2021"}


def raw_scores(settings: BySetting, which: str) -> dict[str, Scores]:
    """{setting: {game: scores [seeds]}}, without NaN."""
    result: dict[str, Scores] = {}
    for setting, games in settings.items():
        of_games = {game: [r.score(which) for r in runs] for game, runs in games.items()}
        arrays = {game: np.array([x for x in scores if not np.isnan(x)]) for game, scores in of_games.items()}
        result[setting] = {game: scores for game, scores in arrays.items() if len(scores)}
    return result


def normalised_scores(raw: Mapping[str, Scores], scale: str) -> dict[str, Scores]:
    """The human-normalised scores of each setting, and of the papers, in the games of the human scale."""
    result: dict[str, Scores] = {}
    for setting, games in raw.items():
        scores = {game: normalised(game, x, scale) for game, x in games.items() if human_scale(game, scale)}
        if scores:
            result[setting] = scores
    ours = sorted({game for games in result.values() for game in games if published(game)})
    for name, label in PAPERS.items() if ours else ():
        result[label] = {g: normalised(g, np.array([published(g)[name]]), scale) for g in ours}
    return result


def aggregates_table(scores: Mapping[str, Scores], summaries: Mapping[str, Summary], scale: str) -> Table:
    rows = []
    for label, s in summaries.items():
        games = scores[label]
        cells = [number(100 * x, 1) for name in NAMES for x in _cells(getattr(s, name))]
        single = sum(len(x) == 1 for x in games.values())
        rows.append([label, str(len(games)), seeds(games), str(single), *cells])
    columns = ["setting", "games", "seeds", "games with one seed"]
    for name in ("median", "IQM", "mean", "optimality gap"):
        columns += [f"{name} %", "low", "high"]
    note = (
        f"Human-normalised by the scale {scale}, over its games. Median and mean over games of the mean over seeds; "
        "interquartile mean (IQM) over runs, if there are at least four; optimality gap: mean of 100 % - score, where "
        "a score above 100 % counts as 100 %. Each game counts with all its seeds, and as much as any other. "
        f"{SIZE} % intervals by a bootstrap over seeds, stratified by game: they do not contain the error of games "
        "with one seed, and there are none if all games have one. Rows of papers: the printed scores, in all games "
        "that any setting has. Rows over different games are not comparable."
    )
    return Table("aggregates", "Aggregates over games", columns, rows, note)


def _cells(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def profiles_table(summaries: Mapping[str, Summary]) -> Table:
    rows = [
        [label, number(100 * t, 0), number(share, 4), number(low, 4), number(high, 4)]
        for label, s in summaries.items()
        for t, share, low, high in zip(TAUS, s.share, s.share_low, s.share_high, strict=True)
    ]
    return Table("profiles", "Performance profiles", ["setting", "t %", "share above", "low", "high"], rows)


def improvements_table(raw: Mapping[str, Scores], reps: int) -> Table:
    """The probability of improvement for each pair of settings that have scores in the same games."""
    rows = []
    for first, second in combinations(raw, 2):
        if common := [game for game in raw[first] if game in raw[second]]:
            p = improvement(raw[first], raw[second], reps)
            counts = [seeds({game: raw[name][game] for game in common}) for name in (first, second)]
            rows.append([first, second, str(len(common)), *counts, *(number(x, 3) for x in _cells(p))])
    note = (
        "Probability that a run of the first setting has a higher score than one of the second, mean over the games "
        f"that both have; {SIZE} % intervals as above."
    )
    columns = ["setting", "than", "games", "seeds", "seeds of the other", "probability", "low", "high"]
    return Table("improvements", "Probability of improvement", columns, rows, note)


def differences_table(scores: Mapping[str, Scores], settings: BySetting, reps: int) -> Table:
    """The difference of the interquartile means of each pair of settings with at least four games in common."""
    rows = []
    for first, second in combinations([setting for setting in settings if setting in scores], 2):
        d = difference(scores[first], scores[second], reps)
        if np.isfinite(d.value):
            common = sum(game in scores[second] for game in scores[first])
            rows.append([first, second, str(common), *(number(100 * x, 1) for x in _cells(d))])
    note = (
        "Interquartile mean over games of the first setting minus that of the second, human-normalised, over the games "
        f"that both have; {SIZE} % intervals by a paired bootstrap over games and seeds. A setting is better on games "
        "like these if its interval is above 0."
    )
    columns = ["setting", "minus", "games", "difference %", "low", "high"]
    return Table("differences", "Differences of the IQM", columns, rows, note)


def aggregate_section(
    learnt: BySetting, which: str, reps: int, scale: str
) -> tuple[Section, Table, Mapping[str, Scores]]:
    """Return the section, the table of performance profiles (only written as CSV), and the human-normalised scores."""
    raw = raw_scores(learnt, which)
    scores = normalised_scores(raw, scale)
    summaries = {label: summarise(games, reps) for label, games in scores.items()}
    colour = colours(list(learnt))
    pictures = []
    if summaries:
        pictures = [
            Picture(
                intervals(summaries, colour),
                "Aggregates with 95 % intervals. (aggregates.csv)",
                intervals(summaries, colour, columns=1),
            ),
            Picture(
                profiles(summaries, colour),
                "Performance profiles, with 95 % intervals. (profiles.csv)",
                profiles(summaries, colour, NARROW),
            ),
        ]
    table = aggregates_table(scores, summaries, scale)
    pairs = [improvements_table(raw, reps), differences_table(scores, learnt, reps)]
    tables = [table, *(pair for pair in pairs if pair.rows)]
    return Section(table.title, pictures, tables), profiles_table(summaries), scores


def intervals(summaries: Mapping[str, Summary], colour: Mapping[str, object], columns: int = 3) -> bytes:
    """Median, interquartile mean and optimality gap of each setting with their intervals, in percent, as a PNG of one
    or three columns."""
    shown = {"median": "median", "iqm": "interquartile mean", "gap": "optimality gap"}
    rows = len(shown) // columns
    size = (12 if columns > 1 else NARROW, rows * (0.32 * len(summaries) + 1.4))
    figure, axes = subplots(rows, columns, figsize=size, sharey=True)
    for i, (setting, summary) in enumerate(summaries.items()):
        for panel, name in zip(axes, shown, strict=True):
            v, c = getattr(summary, name), colour.get(setting, "0.4")
            if np.isfinite(v.low):
                panel.plot([100 * v.low, 100 * v.high], [i, i], color=c, linewidth=8, alpha=0.35, solid_capstyle="butt")
            panel.plot([100 * v.value], [i], marker="|", markersize=14, color=c)
    for panel, title in zip(axes, shown.values(), strict=True):
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("% between random and human", fontsize=8)
        panel.grid(alpha=0.3, axis="x")
        panel.tick_params(labelsize=8)
    axes[0].set_yticks(range(len(summaries)), list(map(literal, summaries)), fontsize=8)
    axes[0].set_ylim(len(summaries) - 0.5, -0.5)
    return picture(figure)


def profiles(summaries: Mapping[str, Summary], colour: Mapping[str, object], width: float = 8.0) -> bytes:
    """Performance profiles: the fraction of runs above each human-normalised score, as a PNG of `width` inches."""
    columns = 2 if max(map(len, summaries), default=0) > 30 or width < 8 else 3
    # Each line of the legend is 0.19 inches high.
    height = 4.0 + 0.19 * -(-len(summaries) // columns)
    figure, panel = subplots(figsize=(width, height))
    greys = iter(("--", ":", "-."))
    for setting, s in summaries.items():
        ours = setting in colour
        c, style = (colour[setting], "-") if ours else ("0.4", next(greys))
        panel.plot(100 * TAUS, s.share, color=c, label=literal(setting), linestyle=style, linewidth=1.4)
        if np.isfinite(s.share_low).all():
            panel.fill_between(100 * TAUS, s.share_low, s.share_high, color=c, alpha=0.2, linewidth=0)
    panel.set_xlabel("score t, % between random and human", fontsize=9)
    panel.set_ylabel("share of runs above t", fontsize=9)
    panel.set_ylim(-0.02, 1.02)
    panel.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=columns, fontsize=8)
    return picture(figure)
