"""The sample-efficiency curve: the interquartile mean over games against env steps (Agarwal et al. 2021, figure 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel_rl.envs.atari_games import human_scale
from accel_rl.metrics.plot import Column, colours, counts, literal, picture, subplots
from accel_rl.report.aggregates import Scores, iqm, normalised, percentiles, resampled, seeds, weights
from accel_rl.report.curves import shows_evaluations
from accel_rl.report.page import NARROW
from accel_rl.results.section import Picture, Section
from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import BySetting, TrainedRun

POINTS = 40


@dataclass(frozen=True)
class EfficiencyCurve:
    """The interquartile mean of human-normalised scores [POINTS] after `steps` env steps, with its 95 % bootstrap
    interval over seeds, or NaN if every game has one seed. `seeds` is the number of seeds at the curve's first
    point."""

    steps: np.ndarray
    iqm: np.ndarray
    low: np.ndarray
    high: np.ndarray
    games: int
    seeds: str
    what: str


def efficiency_curve(
    games: Mapping[str, Sequence[TrainedRun]], curve: str, reps: int, scale: str
) -> EfficiencyCurve | None:
    """The sample-efficiency curve of one setting. The curve begins at the first env step at which every run has a
    score, and ends at the last env step that a run of every game has reached. Return None if fewer than four runs have
    scores."""
    usable = {game: runs for game, runs in games.items() if human_scale(game, scale)}
    evaluated = shows_evaluations([r for runs in usable.values() for r in runs], curve)
    columns: dict[str, list[Column]] = {}
    for game, runs in usable.items():
        scored = [c for r in runs if (c := r.evaluations if evaluated else r.online)[0].size]
        if scored:
            columns[game] = scored
    if sum(map(len, columns.values())) < 4:
        return None
    first = max(x[0] for same in columns.values() for x, _ in same)
    last = min(max(x[-1] for x, _ in same) for same in columns.values())
    if last <= first:
        return None
    steps = np.linspace(first, last, POINTS)
    points = []
    for step in steps:
        scores: Scores = {game: _scores_after(step, same, game, scale) for game, same in columns.items()}
        weight = weights(scores)
        value = float(iqm(np.concatenate([*scores.values()]), weight))
        several = max(map(len, scores.values())) > 1
        low, high = percentiles(iqm(resampled(scores, reps), weight)) if several else (np.nan, np.nan)
        points.append((value, low, high))
    values, low, high = np.array(points).T
    what = "evaluation" if evaluated else "training"
    return EfficiencyCurve(steps, values, low, high, len(columns), seeds(columns), what)


def _scores_after(step: float, runs: list[Column], game: str, scale: str) -> np.ndarray:
    """Human-normalised scores after `step` env steps, of the runs that have reached this number."""
    return normalised(game, np.array([np.interp(step, x, y) for x, y in runs if x[-1] >= step]), scale)


def efficiency_section(settings: BySetting, curve: str, reps: int, scale: str) -> list[Section]:
    """The section with the picture and the table of the curves, or [] if no setting has a curve."""
    curves = {s: c for s, games in settings.items() if (c := efficiency_curve(games, curve, reps, scale)) is not None}
    if not curves:
        return []
    rows = [
        [
            *(setting, str(c.games), c.seeds, c.what, number(c.steps[i], 0)),
            *(number(100 * v[i], 1) for v in (c.iqm, c.low, c.high)),
        ]
        for setting, c in curves.items()
        for i in range(POINTS)
    ]
    columns = ["setting", "games", "seeds", "score of", "env steps", "IQM %", "low", "high"]
    title = "Sample efficiency"
    caption = (
        f"Interquartile mean over runs of the human-normalised score (scale {scale}), with the 95 % bootstrap interval "
        "over seeds, until the first game has no longer run. Curves over different games are not comparable. "
        "(sample_efficiency.csv)"
    )
    table, colour = Table("sample_efficiency", title, columns, rows), colours(list(settings))
    return [Section(title, [Picture(_drawn(curves, colour), caption, _drawn(curves, colour, NARROW))], [table])]


def _drawn(curves: Mapping[str, EfficiencyCurve], colour: Mapping[str, object], width: float = 8.0) -> bytes:
    figure, panel = subplots(figsize=(width, 4.4))
    for setting, c in curves.items():
        panel.plot(
            c.steps, 100 * c.iqm, color=colour[setting], label=literal(f"{setting} ({c.games} games)"), linewidth=1.4
        )
        panel.fill_between(c.steps, 100 * c.low, 100 * c.high, color=colour[setting], alpha=0.2, linewidth=0)
    panel.set_xlabel("env steps", fontsize=9)
    panel.set_ylabel("IQM, % between random and human", fontsize=9)
    panel.xaxis.set_major_formatter(counts())
    panel.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return picture(figure)
