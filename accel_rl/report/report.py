"""The report: one page of pictures and tables, and CSV files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from accel_rl.envs.games import ATARI_49
from accel_rl.report import families
from accel_rl.report.aggregates import Matrices
from accel_rl.report.claims import shown_figures
from accel_rl.report.page import Section, page
from accel_rl.report.papers import published, rule_differences, table_of_49, tables_of_times
from accel_rl.report.run import Run, by_setting
from accel_rl.report.scores import scores_table
from accel_rl.report.sections import (
    aggregates,
    learning_curves,
    norms_of_layers,
    paper_tables,
    searches,
    secondary_learners,
)
from accel_rl.report.table import Table
from accel_rl.report.throughput import throughput_table
from accel_rl.system.counts import Count, counted

MOST_NOTES = 10  # largest number of notes of one kind


@dataclass(frozen=True)
class ReportOptions:
    csv: tuple[str, ...] = ()
    """Results of other tools: CSV files with the columns game, seed, step, score (and optionally tool, wall_s)."""
    out: str = "report"
    """Folder to write index.html and the CSV files into."""
    score: Literal["final", "best", "online"] = "final"
    """Score of a run in tables. final: its last evaluation. best: its best evaluation (Daley & Amato). Both leave out
    evaluations of few episodes. online: its last training score. Runs without evaluations have their training scores.
    """
    curve: Literal["auto", "online", "evaluation"] = "auto"
    """Scores of learning curves. auto: training scores for policy gradients (Stooke & Abbeel); for other runs
    evaluations if every run has three, else training scores."""
    reps: Count = 2_000
    """Number of bootstrap samples of an interval."""


def write_report(runs: Sequence[Run], out: Path, o: ReportOptions) -> list[Path]:
    """Write index.html and its tables as CSV; returns the files. The runs are `distinct`."""
    settings = by_setting(runs)
    learners = [r for r in runs if not families.samples_only(r.settings)]
    learnt = by_setting(learners)
    drawn: list[Section] = []
    hidden: list[Table] = []
    for sections, tables in (
        secondary_learners(learners),
        norms_of_layers(learners),
        learning_curves(learnt, o.curve),
    ):
        drawn += sections
        hidden += tables
    own = paper_tables(runs, learnt)
    aggregated, profiles, matrices = aggregates(learnt, o.score, o.reps)
    scores, throughput = scores_table(learnt, o.score), throughput_table(settings)
    have = {table.name for section in own for table in section.tables}
    published_only = [t for t in (table_of_49(), *tables_of_times()) if t.name not in have]
    of_tables = any(r.experiment for r in runs) and not shown_figures(runs)
    sections = [
        *searches(runs),
        *(own + drawn if of_tables else drawn + own),
        Section(scores.title, tables=[scores]),
        *aggregated,
        Section(throughput.title, tables=[throughput]),
        *(Section(t.title, tables=[t]) for t in published_only),
    ]
    out.mkdir(parents=True, exist_ok=True)
    shown = [t for section in sections for t in section.tables]
    written = [table.write(out) for table in (*shown, *hidden, *profiles)]
    index = out / "index.html"
    index.write_text(page(runs, sections, notes(runs, matrices)))
    return [index, *written]


def notes(runs: Sequence[Run], matrices: Matrices) -> list[str]:
    """Notes about the runs, shown before the numbers."""
    found = _some([f"{r.setting} in {r.game}: {r.repeated}" for r in runs if r.repeated])
    found += _some([f"{r.name}: unfinished, {r.unfinished}" for r in runs if r.unfinished])
    found += _some([f"{r.name}: {text}" for r in runs if (text := _short_evaluations(r))])
    without_score = [r for r in runs if np.isnan(r.score("final")) and not families.samples_only(r.settings)]
    found += _some([f"{r.name}: no score yet" for r in without_score])
    without = sorted({r.game for r in runs if not published(r.game)})
    if without:
        found.append(f"without published scores, so in no aggregate: {', '.join(without)}")
    protocols = sorted({r.protocol for r in runs if r.protocol})
    if len(protocols) > 1:
        found.append(f"the runs have different Atari protocols: {', '.join(protocols)}")
    rules = {", ".join(rule_differences(r.settings)) for r in runs if published(r.game) and r.settings}
    found += [f"published scores are by other rules than the runs: {text}" for text in sorted(rules) if text]
    if matrices and any(len(games) < len(ATARI_49) for games, _ in matrices.values()):
        found.append("aggregates are over fewer than the 49 games: compare only rows with the same games")
    return found


def _short_evaluations(run: Run) -> str:
    """Return a note on evaluations of few episodes, which give no score; "" if there are none."""
    if not (n := int(run.short.sum())):
        return ""
    fewest = int(run.episodes[1].min())
    return f"{counted(n, 'evaluation')} of few episodes ({fewest} at least) left out of scores"


def _some(lines: list[str]) -> list[str]:
    """Shorten a list: the first items, and the number of the others."""
    return lines if len(lines) <= MOST_NOTES else [*lines[:MOST_NOTES], f"and {len(lines) - MOST_NOTES} more like this"]
