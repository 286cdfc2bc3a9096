"""This module compares training scores with scores that other libraries have published, at equal numbers of env steps.
With enough seeds, the comparison has a verdict."""

import math
import statistics as stats
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from accel_rl.metrics.plot import colours
from accel_rl.papers.libraries import LibraryScore, library_scores
from accel_rl.report.curves import score_bands
from accel_rl.report.page import Picture, Section
from accel_rl.report.panels import Panel, Point, wrapped
from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import BySetting, Run

SHARE = 0.75
"""A setting counts as not inferior if its mean score is at least `SHARE` times the published score."""
TOLERANCE = 0.01
"""Numbers of env steps count as equal if they differ by at most this fraction: a run of 9.9 M env steps may be compared
with a published score at 10 M env steps."""
QUANTILES = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)
"""`QUANTILES` lists the 95 % quantiles of Student's t distribution for 1 to 10 degrees of freedom. With more than 10
degrees of freedom, the last of the `QUANTILES` is used."""


@dataclass(frozen=True)
class Comparison:
    """A `Comparison` compares the runs of one setting in one game with one published score."""

    game: str
    setting: str
    runs: Sequence[Run]
    published: LibraryScore

    @property
    def arrived(self) -> list[Run]:
        """Return the runs that have training scores and have reached the number of env steps at which the score was
        published."""
        least = (1 - TOLERANCE) * self.published.env_steps
        return [r for r in self.runs if r.env_steps >= least and r.online[0].size]

    @property
    def scores(self) -> list[float]:
        """Return the training scores at the number of env steps at which the score was published, or the latest scores
        if no run has reached this number."""
        runs = self.arrived or [r for r in self.runs if r.online[0].size]
        return [float(np.interp(self.published.env_steps, *r.online)) for r in runs]

    @property
    def evaluations(self) -> list[float]:
        """Return the score of each run's last evaluation up to the number of env steps at which the score was
        published."""
        most = (1 + TOLERANCE) * self.published.env_steps
        results = []
        for run in self.arrived or self.runs:
            steps, scores = (x[~run.short] for x in run.evaluations)
            if (steps <= most).any():
                results.append(float(scores[steps <= most][-1]))
        return results

    @property
    def verdict(self) -> str:
        if not self.arrived:
            steps = max((r.env_steps for r in self.runs), default=0.0)
            return f"{steps / 1e6:.2f} of {self.published.env_steps / 1e6:g} M env steps"
        if len(self.arrived) == 1:
            return "one seed"
        if not self.published.protocol:
            return "rules not stated"
        low, high = mean_bounds(self.scores)
        least = SHARE * self.published.mean
        return "not inferior" if low >= least else "inferior" if high < least else "undecided"

    def row(self) -> list[str]:
        p, scores = self.published, self.scores
        mean = stats.mean(scores) if scores else None
        evaluation = stats.mean(self.evaluations) if self.evaluations else None
        ratio = mean / p.mean if mean is not None and self.arrived and p.mean > 0 else None
        return [
            self.game,
            self.setting,
            f"{len(self.arrived)} of {len(self.runs)}",
            number(mean),
            number(stats.stdev(scores)) if len(scores) > 1 else "",
            number(evaluation),
            number(p.mean),
            number(p.deviation),
            "" if p.seeds is None else str(p.seeds),
            p.source,
            number(ratio),
            self.verdict,
        ]


def mean_bounds(scores: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper one-sided 95 % confidence bound of the mean of at least two scores, by Student's t
    distribution."""
    quantile = QUANTILES[min(len(scores) - 1, len(QUANTILES)) - 1]
    margin = quantile * stats.stdev(scores) / math.sqrt(len(scores))
    return stats.mean(scores) - margin, stats.mean(scores) + margin


def comparisons(settings: BySetting) -> Iterator[Comparison]:
    """Yield the comparisons with published scores, ordered by game, setting and source."""
    for game in sorted({game for games in settings.values() for game in games}):
        for setting, games in settings.items():
            runs = games.get(game, ())
            steps = max((run.env_steps for run in runs), default=0.0)
            for score in library_scores(runs[0].settings, steps) if runs else ():
                if score.kind == "training" and score.protocol in ("", runs[0].settings.get("env.protocol")):
                    yield Comparison(game, setting, runs, score)


def equal_steps_table(compared: Sequence[Comparison]) -> Table:
    columns = ["game", "setting", "seeds", "training score", "deviation", "evaluation", "published", "deviation"]
    columns += ["seeds", "source", "ratio", "verdict"]
    note = (
        "Seeds: runs that have made the published number of env steps, of all runs. Training score: mean over the last "
        "episodes of each run at the published number of env steps, or so far; published scores are such means, too. "
        "Evaluation: the last one of the same runs until then. Deviation: standard deviation over seeds. Verdict by "
        "one-sided 95 % bounds of the mean over seeds (Student's t): not inferior if the lower bound is at least "
        f"{SHARE:g} of the published score, inferior if the upper bound is below {SHARE:g} of it, and otherwise "
        "undecided. No verdict for one seed, or if the source does not state its rules. Scripts with EnvPool (PQN, and "
        "PPO in JAX) play EnvPool's FIRE, time limit and first stack, which differ a little from the protocol "
        "cleanrl2022."
    )
    return Table(
        "equal_steps", "Beside published scores at equal env steps", columns, [c.row() for c in compared], note
    )


def equal_steps_sections(settings: BySetting) -> list[Section]:
    """Build the report's section of comparisons with published scores of other libraries, or return [] if no score can
    be compared."""
    compared = list(comparisons(settings))
    if not compared:
        return []
    games = list(dict.fromkeys(c.game for c in compared))
    chosen = {c.setting: settings[c.setting] for c in compared}
    bands = score_bands(chosen, "online")
    panels = []
    for game in games:
        points = [
            Point(c.setting, c.published.env_steps, c.published.mean, c.published.deviation or 0.0, c.published.source)
            for c in compared
            if c.game == game and c.setting in bands.get(game, {})
        ]
        if points:
            panels.append(Panel(f"{game}, training score", bands[game], points=points))
    caption = "Training scores: mean over seeds, band from minimum to maximum. Crosses: published scores, with the "
    caption += "standard deviation over seeds, in the colour of the setting."
    pictures = [Picture(png, caption) for png in wrapped(panels, colours(list(chosen)))] if panels else []
    table = equal_steps_table(compared)
    return [Section(table.title, pictures, [table])]
