"""The settings and metrics columns of one run."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from accel_rl.metrics.plot import Column, counted_once, read_columns, repeated
from accel_rl.results import run_settings

SCORES = ("score", "new_score", "eval_score")
"""A run of several games has each of the columns SCORES once per game."""
FULL_LENGTH = 50_000_000  # The number of env steps for which papers report times


def no_column() -> Column:
    return np.zeros(0), np.zeros(0)


@dataclass
class TrainedRun:
    """`setting` is the label of all runs with the same settings in any game and with any seed. `experiment` is the
    experiment of the run's sweep.

    A column consists of two arrays: env steps, and the values of a metric at these env steps. `online` is the mean
    training score. `evaluations` and `deviations` are the mean and the standard deviation of the scores in each
    evaluation, and `episodes` is the number of episodes in each evaluation. `clock` is the time in minutes since the
    run's start, and `speeds` are the env steps/s of each row."""

    name: str
    game: str
    seed: int
    setting: str
    online: Column
    evaluations: Column
    deviations: Column = field(default_factory=no_column)
    episodes: Column = field(default_factory=no_column)
    clock: Column = field(default_factory=no_column)
    speeds: Column = field(default_factory=no_column)
    env_steps: float = 0.0
    wall_s: float = math.nan
    cpu_s: float = math.nan
    """CPU time of all processes of the run so far, in seconds."""
    joules: float = math.nan
    """Energy of the machine's CPU packages during the run so far."""
    algorithm: str = ""
    experiment: str = ""
    path: Path | None = None
    protocol: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    repeated: str = ""
    """A text about other runs with the same settings, game and seed, or ""."""
    part: int = 0
    """If the run's agent plays several games, this object is the part of the run that plays game number `part`, counted
    from 1. Env steps and times of this object are those of the whole run, with all games."""
    unfinished: str = ""
    """A note about data that are missing because the run is unfinished, or ""."""

    def score(self, which: str) -> float:
        """A score of the run, or NaN if the run has no such score. `which` is "final" (the last evaluation that is not
        `short`), "best" (the best evaluation that is not `short`) or "online" (the last training score). For a run
        without evaluations, training scores are used instead."""
        if which == "online" or not self.evaluated:
            values = self.online[1]
            return math.nan if not values.size else float(values.max() if which == "best" else values[-1])
        return float(self.evaluations[1][self.chosen(which)])

    def mean_score(self, after: float, until: float) -> float | None:
        """Mean score of the training episodes that ended between two numbers of env steps, or None if it is unknown."""
        columns = self.columns(("new_score", "episodes"))
        (steps, scores), (of_counts, counts) = columns["new_score"], columns["episodes"]
        ended = dict(zip(of_counts, np.diff(counts, prepend=0), strict=True))
        rows = [(score, ended.get(step, 0)) for step, score in zip(steps, scores, strict=True) if after < step <= until]
        number = sum(n for _, n in rows)
        return float(sum(score * n for score, n in rows) / number) if number else None

    def chosen(self, which: str) -> int:
        """The index of the final or best evaluation. The run must have at least one evaluation."""
        counts = np.flatnonzero(~self.short)
        return int(counts[self.evaluations[1][counts].argmax()] if which == "best" else counts[-1])

    @property
    def short(self) -> np.ndarray:
        """Whether each evaluation is short, [n] bool: a short evaluation has fewer than half of the minimum number of
        episodes.

        The last evaluation of a run may be short, if the run ends a few env steps after the previous evaluation. The
        minimum number of episodes is the number of parallel environments, or the number in the settings. If all
        evaluations are short, none counts as short.
        """
        episodes = self.episodes[1]
        if not len(episodes) or len(episodes) != len(self.evaluations[1]):
            return np.zeros(len(self.evaluations[1]), bool)
        least = self.settings.get("evaluation.episodes") or self.settings.get("evaluation.parallel") or math.inf
        return np.asarray(episodes < min(float(least), episodes.max()) / 2)

    def episodes_of(self, which: str) -> int | None:
        """Number of episodes of the final or best evaluation, or None if unknown."""
        if which == "online" or not self.evaluated or len(self.episodes[1]) != len(self.evaluations[1]):
            return None
        return int(self.episodes[1][self.chosen(which)])

    @property
    def evaluated(self) -> bool:
        return bool(self.evaluations[1].size)

    @property
    def steps_per_s(self) -> float:
        """Env steps/s of the whole run, including the time of evaluations, or NaN before the first row."""
        return self.env_steps / self.wall_s if self.env_steps and self.wall_s > 0 else math.nan

    @property
    def hours(self) -> float:
        """Hours that FULL_LENGTH env steps take at the run's speed, or NaN before the first row."""
        return FULL_LENGTH / self.steps_per_s / 3600

    def hours_past(self, start: float) -> float:
        """Hours that FULL_LENGTH env steps take at the run's speed after its first `start` env steps, for example after
        the random steps that fill a replay. Return NaN if the run has no row of metrics after `start` env steps."""
        if not self.clock[0].size or self.env_steps <= start:
            return math.nan
        steps, minutes = (np.concatenate([[0.0], x]) for x in self.clock)
        return float((minutes[-1] - np.interp(start, steps, minutes)) / 60 * FULL_LENGTH / (steps[-1] - start))

    def minutes(self, env_steps: np.ndarray) -> np.ndarray:
        """Minutes from the run's start until the given env steps, or NaN if the run's metrics contain no times."""
        return np.interp(env_steps, *self.clock) if self.clock[0].size else np.full(len(env_steps), np.nan)

    @property
    def games(self) -> str:
        """All games of the run, such as pong,breakout."""
        return str(self.settings.get("env.game") or self.game)

    def columns(self, names: Sequence[str]) -> dict[str, Column]:
        if not self.path:
            return {name: no_column() for name in names}
        in_file = {name: f"{name}/{self.game}" if self.part and name in SCORES else name for name in names}
        columns = read_columns(self.path, "env_steps", list(in_file.values()))
        return {name: columns[column] for name, column in in_file.items()}


BySetting = Mapping[str, Mapping[str, Sequence[TrainedRun]]]
"""{setting: {game: runs}}"""


def distinct(runs: Sequence[TrainedRun]) -> list[TrainedRun]:
    """Return the longest run for each setting, game and seed. The attribute `repeated` of the returned run names the
    other runs."""
    once = counted_once([(r.setting, r.game, r.seed) for r in runs], [r.env_steps for r in runs])
    for i, others in once.items():
        names = [str(runs[j].path or runs[j].name) for j in (i, *others)]
        runs[i].repeated = repeated(names[0], names[1:], runs[i].seed) if others else ""
    return [runs[i] for i in once]


def by_setting(runs: Sequence[TrainedRun]) -> dict[str, dict[str, list[TrainedRun]]]:
    """{setting: {game: runs}}, with runs in the order of seeds. Settings are ordered by family, in the papers' order,
    and by the numbers in their names: A2C-16env precedes A2C-128env."""
    result: dict[str, dict[str, list[TrainedRun]]] = {}
    for run in sorted(runs, key=_order):
        result.setdefault(run.setting, {}).setdefault(run.game, []).append(run)
    for games in result.values():
        for same in games.values():
            same.sort(key=lambda r: r.seed)
    return result


def _order(run: TrainedRun) -> tuple[int, list[tuple[float, str]]]:
    family = run_settings.family(run.settings)
    place = run_settings.FAMILIES.index(family) if family else len(run_settings.FAMILIES)
    words = re.split(r"(\d+\.?\d*(?:e-?\d+)?)", run.setting)
    return place, [(float(w), "") if i % 2 else (math.inf, w) for i, w in enumerate(words)]
