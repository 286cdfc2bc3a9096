"""Figures 3 to 5 of Nair et al. 2015 (Gorila) for given runs, together with the paper's values, and the sections of a
report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_rl.envs.atari_games import ATARI_49
from accel_rl.envs.atari_games import scores as published_scores
from accel_rl.metrics.plot import picture, subplots
from accel_rl.papers.gorila.gorila_scores import (
    KINDS,
    NAMES,
    OURS,
    TITLE,
    GameScore,
    Starts,
    during_training,
    is_gorila,
    percent_of_dqn,
)
from accel_rl.papers.gorila.gorila_tables import Setting, settings_with_scores
from accel_rl.papers.paper import Paper
from accel_rl.papers.published import percent_of, published_by
from accel_rl.results.section import Picture, Section
from accel_rl.results.table import Table
from accel_rl.results.trained_run import BySetting, TrainedRun

# In the text beside figure 5, Nair et al. 2015 report results after 6, 12, 24 and 36 hours of training.
HOURS = (6.0, 12.0, 24.0, 36.0)
LINEAR = 100  # The axis of scores is linear up to 100 %, and logarithmic beyond 100 %.

Bars = Mapping[str, Mapping[str, float]]
"""`Bars` maps the label of each bar to {game: percent}. A percentage of NaN is not drawn."""


def figure_3(scores: Mapping[str, GameScore]) -> Bars:
    """Human-normalized scores of DQN, Gorila and the given runs. As in the paper, games whose human score is not above
    the random score are omitted, and scores of DQN below the random score are not drawn."""
    result: dict[str, dict[str, float]] = {"DQN (paper)": {}, "Gorila (paper)": {}, "ours": {}}
    for game, s in scores.items():
        random, human, dqn, gorila = (s.printed[c] for c in ("random", "human", "dqn", "gorila"))
        if human <= random:
            continue
        result["DQN (paper)"][game] = percent_of(dqn, random, human) if dqn >= random else math.nan
        result["Gorila (paper)"][game] = percent_of(gorila, random, human)
        result["ours"][game] = s.percent
    return result


def figure_4(by_starts: Mapping[Starts, Mapping[str, GameScore]]) -> Bars:
    """Scores of Gorila and of the given runs, in percent of DQN's score from the same kind of starts."""
    result: dict[str, dict[str, float]] = {}
    games = [game for game in ATARI_49 if any(game in scores for scores in by_starts.values())]
    for starts, scores in by_starts.items():
        kind = KINDS[starts]
        gorila = {game: percent_of_dqn(game, kind, published_scores(kind)[game]["gorila"]) for game in games}
        result[f"Gorila (paper), {NAMES[kind]}"] = gorila
        ours = "our start points" if starts == "saved" else NAMES[kind]
        result[f"ours, {ours}"] = {game: scores[game].percent_of_dqn for game in games if game in scores}
    return result


def bars(setting: Setting) -> list[tuple[Bars, str, str]]:
    """(bars, label of the axis, caption) of figures 3 and 4. The paper draws figure 3 only for human starts, this
    project also for null-op starts."""
    result = []
    wanted: tuple[tuple[Starts, str, int], ...] = (("saved", "Figure 3", 2), ("noop", "Like figure 3", 1))
    for starts, which, table in wanted:
        if starts in setting.by_starts:
            caption = f"{which}: {NAMES[KINDS[starts]]} (gorila_table_{table}{setting.suffix}.csv)"
            result.append((figure_3(setting.by_starts[starts]), "% between random and human", caption))
    caption = "Figure 4: relative to DQN's scores from the same kind of starts (the same files)"
    return [*result, (figure_4(setting.by_starts), "% of DQN's score", caption)]


def drawn_bars(groups: Bars, label: str) -> bytes:
    """A picture with a group of horizontal bars for each game. Games are ordered by the last bar of their group."""
    last = list(groups.values())[-1]
    games = list(dict.fromkeys(game for values in groups.values() for game in values))
    games.sort(key=lambda game: -math.inf if math.isnan(x := last.get(game, math.nan)) else x)
    height = 0.8 / len(groups)
    figure, axis = subplots(figsize=(9, 1.4 + 0.3 * len(games)))
    ours, papers = iter(("tab:blue", "tab:orange")), iter(("0.8", "0.55"))
    for i, (name, values) in enumerate(groups.items()):
        heights = np.arange(len(games)) + (i - (len(groups) - 1) / 2) * height
        axis.barh(
            heights,
            [values.get(game, math.nan) for game in games],
            height,
            label=name,
            color=next(ours if name.startswith("ours") else papers),
        )
    axis.set_xscale("symlog", linthresh=LINEAR)
    axis.set_yticks(range(len(games)), games, fontsize=8)
    axis.set_ylim(-0.6, len(games) - 0.4)
    axis.axvline(100, color="0.4", linestyle="--", linewidth=1)
    axis.set_xlabel(f"{label} (linear up to {LINEAR} %, logarithmic beyond)", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3, axis="x")
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return picture(figure)


@dataclass(frozen=True)
class TrainingHours:
    """Maps each game to the training hours until a run passes DQN's score (`passed`), and until the run reaches its own
    best score (`peak`). The hours of a game are medians over runs, or infinity if DQN's score is never passed."""

    starts: Starts
    passed: Mapping[str, float]
    peak: Mapping[str, float]

    def games(self, hours: float) -> tuple[int, int]:
        """Two numbers of games: those in which the runs passed DQN's score within the given hours, and those in which
        the runs reached their own best score."""
        return sum(h <= hours for h in self.passed.values()), sum(h <= hours for h in self.peak.values())


def progress(setting: Setting, starts: Starts) -> TrainingHours | None:
    """The training hours of each game, or None if the time of no evaluation during training is known."""
    passed, peak = {}, {}
    for game in ATARI_49:
        both = [h for r in setting.games.get(game, ()) if is_gorila(r) and (h := _hours(r, starts)) is not None]
        if both:
            passed[game], peak[game] = (float(np.median(hours)) for hours in zip(*both, strict=True))
    return TrainingHours(starts, passed, peak) if peak else None


def _hours(run: TrainedRun, starts: Starts) -> tuple[float, float] | None:
    result = [r for r in during_training(run, starts) if not math.isnan(r.hours)]
    if not result:
        return None
    dqn = published_scores(KINDS[starts])[run.game]["dqn"]
    passed = min((r.hours for r in result if r.score > dqn), default=math.inf)
    return passed, max(result, key=lambda r: r.score).hours


def figure_5(p: TrainingHours, setting: Setting) -> tuple[bytes, Table]:
    """Plot two curves over training hours: the shares of games in which the runs have passed DQN's score, and in which
    the runs have reached their own best score. The table contains the numbers in the picture."""
    n, text = len(p.peak), published_by("gorila")["figure_5"]
    theirs = {float(hours): count for hours, count in text["games_by_hours"].items()}
    figure, axis = subplots(figsize=(7, 4))
    _steps(axis, p.passed, n, "tab:red", f"ours passed DQN ({n} games)")
    _steps(axis, p.peak, n, "tab:blue", f"ours reached its best score ({n} games)")
    axis.plot(
        list(theirs), [100 * c / 49 for c in theirs.values()], "x", color="0.3", label="Gorila passed DQN (paper)"
    )
    axis.set_xlabel("hours of training", fontsize=9)
    axis.set_ylabel("% of games", fontsize=9)
    axis.set_ylim(-2, 102)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    longest = max(h for h in (*p.passed.values(), *p.peak.values()) if math.isfinite(h))
    rows = [
        [f"{hours:g}", str(n), *map(str, p.games(hours)), str(theirs.get(hours, "-"))]
        for hours in sorted({*HOURS, math.ceil(longest)})
    ]
    note = (
        f"Ours: {setting.name}, evaluations in training from {NAMES[KINDS[p.starts]]}, median over runs; DQN's score "
        f"is the paper's. The paper: {text['text']}."
    )
    columns = ["hours", "games", "passed DQN", "best score reached", "Gorila passed DQN, of 49"]
    name = f"gorila_figure_5{setting.suffix}" + ("" if p.starts == "saved" else "_null_op")
    return picture(figure), Table(name, "Nair et al. 2015, figure 5", columns, rows, note)


def _steps(axis: Any, hours: Mapping[str, float], n: int, color: str, label: str) -> None:
    finite = sorted(h for h in hours.values() if math.isfinite(h))
    shares = [100 * (i + 1) / n for i in range(len(finite))]
    axis.step([0.0, *finite], [0.0, *shares], where="post", color=color, label=label)


def sections(runs: Sequence[TrainedRun], settings: BySetting) -> list[Section]:
    """Tables 1 to 4 and figures 3 to 5."""
    result: list[Section] = []
    for setting in settings_with_scores(settings):
        result += map(Section.of, setting.tables())
        pictures = [Picture(drawn_bars(groups, label), caption) for groups, label, caption in bars(setting)]
        result.append(Section(f"{TITLE}, figures 3 and 4 ({setting.name})", pictures, notes=[OURS]))
        for starts, kind in KINDS.items():
            if (hours := progress(setting, starts)) is not None:
                png, table = figure_5(hours, setting)
                title = f"{TITLE}, figure 5: {NAMES[kind]} ({setting.name})"
                result.append(Section(title, [Picture(png, f"Share of games over time ({table.name}.csv)")], [table]))
    return result


PAPER = Paper("Nair et al.", 2015, sections)
