"""Table 3 of Dalton & Frosio 2020 for given runs, in the paper's layout, with each cell next to the paper's cell."""

import math
import statistics as stats
from collections.abc import Sequence

import numpy as np

from accel_rl.papers.paper import Paper
from accel_rl.papers.published import published_by, wanted
from accel_rl.results.run_settings import Settings, differences, ranks
from accel_rl.results.section import Section
from accel_rl.results.table import Pair, Table, alike, marked, number, paper_table
from accel_rl.results.trained_run import FULL_LENGTH, TrainedRun


def column(settings: Settings) -> str:
    """The column of table 3 to which a run belongs, or "" for other runs."""
    if settings.get("algorithm") != "impala":
        return ""
    n = ranks(settings)
    envs = int(settings.get("sampler.envs") or 0) // n
    where = "gpu" if settings.get("sampler.engine") == "device" else "cpu"
    result = f"{where}-{f'{n}x' if n > 1 else ''}{envs}-{settings.get('algo.batches')}"
    return result if result in published_by("dalton")["table_3"]["columns"] else ""


def cule_differences(settings: Settings) -> list[str]:
    """Settings in which a run differs from the paper's runs in the same column of table 3."""
    if not (result := column(settings)):
        return []
    return differences(settings, {"learners": ranks(settings), **wanted("dalton", "all", result.rpartition("-")[2])})


def hours(settings: Settings) -> float | None:
    """The hours for 50 M env steps at the frames/s that table 3 reports for runs with these settings, or None if table
    3 has no such runs."""
    printed = published_by("dalton")["table_3"]
    game = printed["games"].get(settings.get("env.game"))
    if not (result := column(settings)) or game is None:
        return None
    return FULL_LENGTH / (1e3 * game["rows"][0][printed["columns"].index(result)]) / 3600


def tables(runs: Sequence[TrainedRun]) -> list[Table]:
    measured_runs = [run for run in runs if column(run.settings)]
    return [
        _table(game, [r for r in measured_runs if r.game == game]) for game in sorted({r.game for r in measured_runs})
    ]


def measured(run: TrainedRun, score: float | None) -> list[float]:
    """Thousands of frames per second, updates per second, and the minutes and the millions of frames until the score
    was reached (NaN if the score was not reached). A frame is a training frame, one per env step, which is a quarter of
    the emulated frames (footnote 2 of the paper)."""
    per_update = int(run.settings["sampler.envs"]) * int(run.settings["sampler.horizon"])
    steps, scores = run.evaluations if run.evaluated else run.online
    reached = steps[scores >= score] if score is not None else steps[:0]
    first = float(reached[0]) if reached.size else math.nan
    minutes = float(run.minutes(np.array([first]))[0]) if reached.size else math.nan
    return [run.steps_per_s / 1e3, run.steps_per_s / per_update, minutes, first / 1e6]


def _table(game: str, runs: Sequence[TrainedRun]) -> Table:
    printed = published_by("dalton")["table_3"]
    theirs = printed["games"].get(game, {"score": None, "rows": [[None] * len(printed["columns"])] * 4})
    groups = {
        name: alike(same, cule_differences)
        for name in printed["columns"]
        if (same := [r for r in runs if column(r.settings) == name])
    }
    by_name = {name: [measured(r, theirs["score"]) for r in group.runs] for name, group in groups.items()}
    marks = {name: group.mark for name, group in groups.items()}
    rows: dict[str, list[Pair]] = {}
    for i, label in enumerate(printed["rows"]):
        cells = zip(printed["columns"], theirs["rows"][i], strict=True)
        rows[label] = [
            (_mean([m[i] for m in by_name.get(name, [])], marks.get(name, "")), "-" if x is None else str(x))
            for name, x in cells
        ]
    target = f"a score of {theirs['score']:,}" if theirs["score"] is not None else "no score, which the paper has not"
    note = (
        "Columns: where games are emulated, environments, batches. Training frames: one an env step. Own: mean over "
        f"runs; minutes and Mframes to the first evaluation of {target} or more, evaluations included. The paper: "
        f"{printed['machine']}."
    )
    note += marked(groups.values(), cule_differences)
    title = f"Dalton & Frosio 2020, table 3: {game}"
    return paper_table(f"cule_table_3_{game}", title, "", printed["columns"], rows, note)


def _mean(values: Sequence[float], mark: str) -> str:
    known = [v for v in values if not math.isnan(v)]
    return number(stats.mean(known), 1) + mark if known else ""


PAPER = Paper("Dalton & Frosio", 2020, lambda runs, settings: list(map(Section.of, tables(runs))))
