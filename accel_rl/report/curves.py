"""A learning curve consists of the mean and the spread of scores over seeds, on a common grid of env steps or
minutes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from accel_rl.metrics.plot import Column, spread
from accel_rl.results import run_settings
from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import BySetting, TrainedRun

POINTS = 100
KINDS = ("training", "evaluation")
Over = Literal["env steps", "minutes"]


@dataclass(frozen=True)
class Band:
    """A learning curve: arrays of env steps, of minutes (or NaN), and of the mean, minimum and maximum score over
    `seeds` runs. `what` is the kind of score, training or evaluation. `is_finished` is false if one of the runs has not
    reached its length."""

    steps: np.ndarray
    minutes: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int
    what: str
    is_finished: bool = True


def band(columns: Sequence[tuple[TrainedRun, Column]], what: str = "", over: Over = "env steps") -> Band | None:
    """The learning curve of one column of metrics.csv from several runs, up to the end of the longest run. The grid
    consists of equally spaced numbers of env steps, or of minutes (`over`). Return None if no run has values."""
    drawable = [(run, c) for run, c in columns if c[0].size and (over == "env steps" or run.clock[0].size)]
    if not drawable:
        return None
    xs = [(x if over == "env steps" else run.minutes(x), y) for run, (x, y) in drawable]
    grid, mean, low, high = spread(xs, min(POINTS, len(np.unique(np.concatenate([x for x, _ in xs])))))
    if over == "env steps":
        # At each number of env steps, the minutes are averaged over the runs that have reached this number.
        reached = [
            np.where(grid <= run.clock[0][-1], run.minutes(grid), np.nan) for run, _ in drawable if run.clock[0].size
        ]
        minutes = np.ma.masked_invalid(reached).mean(0).filled(np.nan) if reached else np.full(len(grid), np.nan)
        steps = grid
    else:
        steps, minutes = np.mean([np.interp(grid, *run.clock[::-1]) for run, _ in drawable], 0), grid
    is_finished = not any(run.unfinished for run, _ in drawable)
    return Band(steps, minutes, mean, low, high, len(drawable), what, is_finished)


def shows_evaluations(runs: Sequence[TrainedRun], curve: str) -> bool:
    """Whether a panel shows evaluations instead of training scores. `curve` is online, evaluation or auto. For policy
    gradients, auto means training scores. For other algorithms, auto means evaluations if every run has at least three
    evaluations, and otherwise training scores. Runs without training scores have curves of evaluations."""
    if curve != "auto":
        return curve == "evaluation"
    if not any(r.online[0].size for r in runs):
        return True
    if all(run_settings.is_policy_gradient(r.settings) for r in runs):
        return False
    return all(len(r.evaluations[0]) >= 3 for r in runs)


def score_bands(settings: BySetting, curve: str, over: Over = "env steps") -> dict[str, dict[str, Band]]:
    """{game: {setting: band}}"""
    result: dict[str, dict[str, Band]] = {}
    for game in sorted({g for games in settings.values() for g in games}):
        evaluations = shows_evaluations([r for games in settings.values() for r in games.get(game, ())], curve)
        for setting, games in settings.items():
            columns = [(r, r.evaluations if evaluations else r.online) for r in games.get(game, ())]
            if (b := band(columns, KINDS[evaluations], over)) is not None:
                result.setdefault(game, {})[setting] = b
    return result


def curves_table(name: str, title: str, bands: Sequence[Mapping[str, Mapping[str, Band]]]) -> Table:
    rows = [
        [
            *(game, setting, b.what, str(b.seeds), number(b.steps[i], 0), number(b.minutes[i], 3)),
            *(number(b.mean[i]), number(b.low[i]), number(b.high[i])),
        ]
        for group in bands
        for game, settings in group.items()
        for setting, b in settings.items()
        for i in range(len(b.steps))
    ]
    columns = ["game", "setting", "score of", "seeds", "env steps", "minutes", "mean", "low", "high"]
    return Table(name, title, columns, rows)
