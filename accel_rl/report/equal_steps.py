"""Compares runs with scores that other libraries have published, at equal numbers of env steps."""

import statistics as stats
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel_rl.envs.atari_games import human_scale
from accel_rl.metrics.plot import colours
from accel_rl.papers.libraries import LibraryScore, library_scores
from accel_rl.report.aggregates import LEAST_GAMES, seeds
from accel_rl.report.curves import score_bands
from accel_rl.report.non_inferiority import (
    ERROR,
    MARGIN,
    Sample,
    chances,
    holm,
    prediction_interval,
    verdict,
    welch,
)
from accel_rl.report.panels import Panel, PublishedScore, pictures
from accel_rl.report.pooled import chance, pooled
from accel_rl.results.section import Section
from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import BySetting, TrainedRun

TOLERANCE = 0.01
"""Numbers of env steps count as equal if they differ by at most 1 %: a run of 9.9 M env steps may be compared with a
published score at 10 M env steps."""
ASSUMED_DEVIATION = 0.13
"""If a source publishes no standard deviation over seeds, this fraction of the difference between its score and random
play is assumed. The fraction is the median of all published deviations (tests/report/test_equal_steps.py)."""


@dataclass(frozen=True)
class Comparison:
    """Compares the runs of one setting in one game with one published score. `scale` is the name of the table of random
    and human scores for human-normalisation."""

    game: str
    setting: str
    runs: Sequence[TrainedRun]
    published: LibraryScore
    scale: str

    @property
    def arrived(self) -> list[TrainedRun]:
        """The runs that have scores and have reached the number of env steps of the published score."""
        least = (1 - TOLERANCE) * self.published.env_steps
        scored = [r for r in self.runs if r.env_steps >= least]
        return [r for r in scored if self.of_run(r) is not None]

    def of_run(self, run: TrainedRun) -> float | None:
        """The run's training or evaluation score, whichever kind was published, at the published number of env
        steps."""
        return self.training(run) if self.published.kind == "training" else self.evaluation(run)

    def training(self, run: TrainedRun) -> float | None:
        p = self.published
        if p.window and (mean := run.mean_score(p.env_steps - p.window, (1 + TOLERANCE) * p.env_steps)) is not None:
            return mean
        return float(np.interp(self.published.env_steps, *run.online)) if run.online[0].size else None

    def evaluation(self, run: TrainedRun) -> float | None:
        steps, scores = (x[~run.short] for x in run.evaluations)
        until = scores[steps <= (1 + TOLERANCE) * self.published.env_steps]
        return float(until[-1]) if until.size else None

    @property
    def ours(self) -> Sample:
        scores = [x for r in self.arrived if (x := self.of_run(r)) is not None]
        return Sample(stats.mean(scores), stats.stdev(scores) if len(scores) > 1 else 0.0, len(scores))

    @property
    def theirs(self) -> Sample | None:
        """The mean, deviation and number of seeds of the published scores. If no deviation over seeds is published, a
        deviation is assumed; without a known score of random play, the result is None."""
        p = self.published
        if p.deviation is not None and p.seeds is not None and p.seeds > 1:
            return Sample(p.mean, p.deviation, p.seeds)
        if human_scale(self.game, self.scale) is None:
            return None
        return Sample(p.mean, ASSUMED_DEVIATION * abs(p.mean - self.random), p.seeds or 1, assumed=True)

    @property
    def random(self) -> float:
        return (human_scale(self.game, self.scale) or (np.nan, np.nan))[0]

    @property
    def unit(self) -> float:
        """The human score minus the score of random play, or NaN."""
        random, human = human_scale(self.game, self.scale) or (np.nan, np.nan)
        return human - random

    @property
    def margin(self) -> float:
        """The largest difference by which a score may be below the published score without being inferior; NaN without
        a human score."""
        return MARGIN * abs(self.published.mean - self.random)

    @property
    def is_tested(self) -> bool:
        """Whether this game can be tested separately: both sides have several seeds, and the rules are the same."""
        theirs = self.theirs
        has_seeds = len(self.arrived) > 1 and theirs is not None and not theirs.assumed
        return has_seeds and not self.published.differences and self.margin > 0

    def normalised(self, sample: Sample) -> Sample:
        deviation = sample.deviation / abs(self.unit)
        return Sample((sample.mean - self.random) / self.unit, deviation, sample.seeds, sample.assumed)


def comparisons(settings: BySetting, scale: str) -> Iterator[Comparison]:
    """All comparisons, ordered by game, setting and source. A published score after more env steps than the runs'
    length is omitted. A published curve is interpolated at the env steps of the longest run."""
    for game in sorted({game for games in settings.values() for game in games}):
        for setting, games in settings.items():
            if not (runs := games.get(game, ())):
                continue
            planned = max(float(r.settings.get("env_steps") or r.env_steps) for r in runs)
            for score in library_scores(runs[0].settings, max(r.env_steps for r in runs)):
                if score.env_steps <= (1 + TOLERANCE) * planned:
                    yield Comparison(game, setting, runs, score, scale)


Verdicts = Mapping[tuple[str, str, str], tuple[str, float]]
"""{(game, setting, source): (verdict, probability of "not inferior" if both sides have the same distribution)}"""


def families(compared: Sequence[Comparison]) -> dict[tuple[str, str], list[Comparison]]:
    """{(setting, source): comparisons}"""
    result: dict[tuple[str, str], list[Comparison]] = {}
    for c in compared:
        result.setdefault((c.setting, c.published.source), []).append(c)
    return result


def verdicts(compared: Sequence[Comparison]) -> Verdicts:
    """Test the comparisons that can be tested, with Holm's method over the games of each setting and source."""
    result = {}
    for (setting, source), family in families(compared).items():
        if not (tested := [c for c in family if c.is_tested]):
            continue
        theirs = [s for c in tested if (s := c.theirs) is not None]
        p = np.array([welch(c.ours, s, c.margin) for c, s in zip(tested, theirs, strict=True)])
        adjusted = np.stack([holm(column) for column in p.T], -1)
        powers = chances(theirs, [c.ours.seeds for c in tested], [c.margin for c in tested])
        for c, of_game, x in zip(tested, adjusted, powers, strict=True):
            result[c.game, setting, source] = (verdict(tuple(of_game)), float(x))
    return result


def place(c: Comparison) -> tuple[str, str]:
    """(position, interval): whether our mean is "above", "inside" or "below" the 95 % prediction interval of the
    source, and this interval. Return ("", "") without runs, or without a published or assumed deviation."""
    theirs = c.theirs
    if not c.arrived or theirs is None:
        return "", ""
    ours = c.ours
    low, high = prediction_interval(theirs, ours.seeds)
    text = "above" if ours.mean > high else "below" if ours.mean < low else "inside"
    return text, f"{number(low)} to {number(high)}" + (", deviation assumed" if theirs.assumed else "")


def _row(c: Comparison, tested: Verdicts) -> list[str]:
    p, runs = c.published, c.arrived or c.runs
    training, evaluations = ([x for r in runs if (x := f(r)) is not None] for f in (c.training, c.evaluation))
    scores = evaluations if p.kind == "evaluation" else training
    text, power = tested.get((c.game, c.setting, p.source), ("", np.nan))
    if not c.arrived:
        steps = max((r.env_steps for r in c.runs), default=0.0)
        text = f"{steps / 1e6:.2f} of {p.env_steps / 1e6:g} M env steps"
    is_above = (p.mean - c.random) * c.unit > 0  # Published scores after few env steps may be below random play.
    share = 100 * (stats.mean(scores) - c.random) / (p.mean - c.random) if c.arrived and is_above else None
    return [
        c.game,
        c.setting,
        f"{len(c.arrived)} of {len(c.runs)}",
        number(p.env_steps / 1e6),
        number(stats.mean(training)) if training else "",
        number(stats.mean(evaluations)) if evaluations else "",
        number(stats.stdev(scores)) if len(scores) > 1 else "",
        number(p.mean),
        number(p.deviation),
        "" if p.seeds is None else str(p.seeds),
        p.source + (", interpolated" if p.interpolated else ""),
        p.kind,
        ", ".join(p.differences),
        number(share, 0),
        *place(c),
        number(100 * c.margin / abs(c.unit), 1),
        text,
        number(power),
    ]


def equal_steps_table(compared: Sequence[Comparison]) -> Table:
    columns = ["game", "setting", "seeds", "M env steps", "training score", "evaluation", "deviation", "published"]
    columns += ["deviation", "seeds", "source", "kind", "rules that differ", "% of published", "place", "95 % interval"]
    columns += ["margin %", "verdict", "chance"]
    note = (
        "Seeds: runs that have made the env steps of the published score, of all runs. Our scores: at that number of "
        "env steps, or so far; training scores are means over the last 100 episodes, or over "
        "the source's last env steps (Dopamine: 250,000); the deviation is over seeds, of the "
        "published kind of score. Published curves are interpolated. % of published: both scores less that of random "
        "play. Place: whether our mean is above, inside or below the 95 % prediction interval for the mean of the same "
        f"number of further runs of the source. A source of one run has an assumed deviation of "
        f"{100 * ASSUMED_DEVIATION:.0f} % of its distance from random play, the median of all published ones. Verdict, "
        "for at least two seeds of both and the same rules: not inferior if the mean is not lower by the margin, "
        f"{100 * MARGIN:.0f} % of the published distance from random play (here in % between random and human), "
        "equivalent if it is not higher by it either, inferior if it is lower by it; Welch's one-sided tests with an "
        f"error of {ERROR:g} for all games of a setting and source together (Holm). Chance: of not inferior or "
        "equivalent, if our runs had the published distribution."
    )
    tested = verdicts(compared)
    rows = [_row(c, tested) for c in compared]
    return Table("equal_steps", "Beside published scores at equal env steps", columns, rows, note)


def pooled_table(compared: Sequence[Comparison], reps: int) -> Table:
    """A table with one test over all games for each setting and source."""
    rows = []
    for (setting, source), family in families(compared).items():
        pairs = [(c, theirs) for c in family if c.arrived and (theirs := c.theirs) and np.isfinite(c.unit)]
        if len(pairs) < LEAST_GAMES:
            continue
        sides = [c.normalised(c.ours) for c, _ in pairs], [c.normalised(s) for c, s in pairs]
        result = pooled(*sides, reps)
        rules = dict.fromkeys(text for c, _ in pairs for text in c.published.differences)
        values = (result.ours, result.published, result.ours - result.published, result.low, result.high, result.margin)
        rows.append(
            [
                *(
                    setting,
                    source,
                    str(len(pairs)),
                    seeds({c.game: c.arrived for c, _ in pairs}),
                    ", ".join(rules),
                ),
                *(number(100 * x, 1) for x in values),
                *(result.verdict, number(chance(*sides, max(200, reps // 8)))),
            ]
        )
    columns = ["setting", "source", "games", "seeds", "rules that differ", "IQM %", "published IQM %", "difference"]
    columns += ["low", "high", "margin", "verdict", "chance"]
    note = (
        "One test for all games of a setting and source, which can decide even if each game has one seed. IQM: "
        "interquartile mean over games of the mean over seeds, human-normalised. The difference has a 90 % interval, "
        "by a parametric bootstrap that is stratified by game: the deviation in a game is estimated from the seeds of "
        f"both sides. Not inferior: the difference is above -margin, {100 * MARGIN:.0f} % of the published IQM, with "
        f"an error of {ERROR:g}. Chance: of this verdict, if our runs had the published distribution."
    )
    return Table("pooled", "All games together", columns, rows, note)


def equal_steps_sections(settings: BySetting, reps: int, scale: str) -> list[Section]:
    """Comparisons with published scores of other libraries, or [] if no score can be compared."""
    compared = list(comparisons(settings, scale))
    if not compared:
        return []
    games = list(dict.fromkeys(c.game for c in compared))
    chosen = {c.setting: settings[c.setting] for c in compared}
    bands = score_bands(chosen, "online")
    panels = []
    for game in games:
        points = [
            PublishedScore(
                c.setting, c.published.env_steps, c.published.mean, c.published.deviation or 0.0, c.published.source
            )
            for c in compared
            if c.game == game and c.setting in bands.get(game, {}) and c.published.kind == "training"
        ]
        if points:
            panels.append(Panel(f"{game}, training score", bands[game], points=points))
    caption = "Training scores: mean over seeds, band from minimum to maximum. Crosses: published training scores with "
    caption += "the standard deviation over seeds, in the colour of the setting; the table names their sources."
    drawn = pictures(panels, colours(list(chosen)), caption) if panels else []
    table, together = equal_steps_table(compared), pooled_table(compared, reps)
    return [Section(table.title, drawn, [table, *([together] if together.rows else [])])]
