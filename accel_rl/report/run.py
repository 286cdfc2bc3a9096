"""The settings and metrics columns of one run."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from accel_rl.metrics.plot import Column, read_columns
from accel_rl.report import families

FULL_LENGTH = 50_000_000  # env steps: the length of the papers' times


def no_column() -> Column:
    return np.zeros(0), np.zeros(0)


@dataclass
class Run:
    """One run. setting: label that it shares with the runs of other games and seeds. experiment: that of its sweep.

    Columns against env steps: online (training score), evaluations (mean score), deviations (over the episodes of an
    evaluation), episodes (of an evaluation), clock (minutes), speeds (env steps/s of each row).
    """

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
    algorithm: str = ""
    experiment: str = ""
    path: Path | None = None
    protocol: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    unfinished: str = ""
    """A note on missing data, or ""."""

    def score(self, which: str) -> float:
        """Return a score of the run; NaN if it has none.

        final: the last evaluation. best: the best evaluation. online: the last training score. Without evaluations,
        training scores are used.
        """
        values = self.online[1] if which == "online" or not self.evaluated else self.evaluations[1]
        if not values.size:
            return math.nan
        return float(values.max() if which == "best" else values[-1])

    @property
    def evaluated(self) -> bool:
        return bool(self.evaluations[1].size)

    @property
    def steps_per_s(self) -> float:
        """Env steps/s of the whole run, evaluations included; NaN before the first row."""
        return self.env_steps / self.wall_s if self.env_steps and self.wall_s > 0 else math.nan

    @property
    def hours(self) -> float:
        """Hours for FULL_LENGTH env steps at this speed; NaN before the first row."""
        return FULL_LENGTH / self.steps_per_s / 3600

    def hours_past(self, start: float) -> float:
        """Return the hours for FULL_LENGTH env steps at the speed after the first `start` env steps.

        start: for example the random play that fills a replay. NaN if there is no row after it.
        """
        if not self.clock[0].size or self.env_steps <= start:
            return math.nan
        steps, minutes = (np.concatenate([[0.0], x]) for x in self.clock)
        return float((minutes[-1] - np.interp(start, steps, minutes)) / 60 * FULL_LENGTH / (steps[-1] - start))

    def minutes(self, env_steps: np.ndarray) -> np.ndarray:
        """Return the minutes since the run's start at these env steps; NaN without a clock."""
        return np.interp(env_steps, *self.clock) if self.clock[0].size else np.full(len(env_steps), np.nan)

    def columns(self, names: Sequence[str]) -> dict[str, Column]:
        """Other columns of metrics.csv against env steps; empty if they do not exist."""
        return read_columns(self.path, "env_steps", names) if self.path else {name: no_column() for name in names}


def by_setting(runs: Sequence[Run]) -> dict[str, dict[str, list[Run]]]:
    """Group runs: {setting: {game: runs in order of seeds}}.

    Families are in the papers' order; numbers in names are ordered by value, A2C-16env before A2C-128env.
    """
    found: dict[str, dict[str, list[Run]]] = {}
    for run in sorted(runs, key=_order):
        found.setdefault(run.setting, {}).setdefault(run.game, []).append(run)
    for games in found.values():
        for same in games.values():
            same.sort(key=lambda r: r.seed)
    return found


def _order(run: Run) -> tuple[int, list[tuple[float, str]]]:
    family = families.family(run.settings)
    place = families.FAMILIES.index(family) if family else len(families.FAMILIES)
    words = re.split(r"(\d+\.?\d*(?:e-?\d+)?)", run.setting)
    return place, [(float(w), "") if i % 2 else (math.inf, w) for i, w in enumerate(words)]
