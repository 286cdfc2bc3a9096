"""The report: which pictures and tables it shows, in which order, and the page and files that they become."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from accel_rl.counts import Count
from accel_rl.envs.games import ATARI_49
from accel_rl.report import daley, families, figures, learning, norms, secondary, stooke
from accel_rl.report.aggregates import Matrices, aggregates_table, normalised, profiles_table
from accel_rl.report.canvas import colours
from accel_rl.report.claims import claims, shown_figures, title
from accel_rl.report.curves import Settings, curves_table
from accel_rl.report.page import Picture, Section, page
from accel_rl.report.panels import panels_table, wrapped
from accel_rl.report.papers import published, table_of_49, tables_of_times
from accel_rl.report.run import Run, by_setting
from accel_rl.report.scores import scores_table
from accel_rl.report.statistics import summarise
from accel_rl.report.table import Table
from accel_rl.report.throughput import throughput_table

MEAN = "mean over seeds, band from the least to the greatest"
CAPTION = f"{MEAN.capitalize()}; training scores are of the last 100 episodes."
SECONDARY_FIGURES, NORM_FIGURES = ("6", "7", "8"), ("9",)  # the others are learning curves


@dataclass(frozen=True)
class ReportOptions:
    csv: tuple[str, ...] = ()
    """Results of other tools: CSV files with the columns game, seed, step, score (and tool, wall_s)."""
    out: str = "report"
    """Folder to write index.html and the CSVs into."""
    score: Literal["final", "best", "online"] = "final"
    """Which score of a run is compared: its last evaluation, its best one (Daley & Amato), or its last training score.
    Runs without evaluations have their training scores."""
    curve: Literal["auto", "online", "evaluation"] = "auto"
    """What learning curves show; auto: training scores of policy gradients (Stooke & Abbeel); of other runs evaluations
    where every run has three, else training scores."""
    reps: Count = 2_000
    """Bootstrap samples of an interval."""


Shown = tuple[list[Section], list[Table]]
"""Parts of the page, and the tables that are written beside it but not shown."""


def learning_curves(settings: Settings, curve: str, named: Sequence[str]) -> Shown:
    """Scores against env steps and against minutes. `named`: the paper's figures that the runs are of."""
    rows = learning.grouped(settings)
    heading = f" ({title(named)})" if named else ""
    sections, hidden = [], []
    for over, name in (("env steps", "curves"), ("minutes", "curves_by_time")):
        bands = learning.bands_of(rows, curve, over)  # type: ignore[arg-type]
        shown = f"Learning curves by {over}{heading}"
        hidden.append(curves_table(name, shown, list(bands.values())))
        pictures = learning.drawn(bands, settings, over)  # type: ignore[arg-type]
        if pictures:
            said = claims(named) if over == "env steps" else []
            sections.append(Section(shown, [Picture(png, f"{CAPTION} ({name}.csv)") for png in pictures], notes=said))
    return sections, hidden


def secondary_learners(runs: Sequence[Run]) -> Shown:
    """Figures 6 to 8."""
    sections, hidden = [], []
    here = [r for r in runs if secondary.has_secondary(r)]
    named = [n for n in shown_figures(here) if n in SECONDARY_FIGURES] or list(SECONDARY_FIGURES)
    found = secondary.panels(here)
    colour = colours(list(secondary.SHORT.values()))
    pictures = [
        Picture(png, f"{quantity}: {MEAN} (secondary.csv)")
        for quantity, panels in found.items()
        for png in wrapped(panels, colour)
    ]
    if pictures:
        sections.append(Section(f"Secondary learners ({title(named)})", pictures, notes=claims(named)))
        panels = [p for there in found.values() for p in there]
        hidden.append(panels_table("secondary", "Secondary learners", panels))
    return sections, hidden


def norms_of_layers(runs: Sequence[Run]) -> Shown:
    """Figure 9, for each game."""
    sections, hidden = [], []
    here = [r for r in runs if norms.has_norms(r) and not secondary.has_secondary(r)]
    by_game = {game: [r for r in here if r.game == game] for game in sorted({r.game for r in here})}
    found = {game: panels for game, same in by_game.items() if (panels := norms.panels(same))}
    pictures = [Picture(norms.drawn(p), f"{game}: {MEAN} (norms.csv)") for game, p in found.items()]
    if pictures:
        said = claims(NORM_FIGURES) if set(shown_figures(here)) & set(NORM_FIGURES) else []
        sections.append(Section(f"Norms of the layers ({title(NORM_FIGURES)})", pictures, notes=said))
        hidden.append(panels_table("norms", "Norms of the layers", [p for panels in found.values() for p in panels]))
    return sections, hidden


def paper_tables(runs: Sequence[Run], settings: Settings) -> list[Section]:
    """The papers' tables that some run belongs to."""
    found = [Section(t.title, tables=[t]) for t in (*stooke.tables(runs), *daley.speed_tables(runs))]
    return found + [Section(t.title, tables=(t, counts)) for t, counts in daley.suite_tables(settings)]


def aggregates(learnt: Settings, o: ReportOptions) -> tuple[list[Section], list[Table], Matrices]:
    matrices = normalised(learnt, o.score)
    found = {label: summarise(scores, o.reps) for label, (_, scores) in matrices.items()}
    colour = colours(list(learnt))
    pictures = []
    if found:
        pictures = [
            Picture(figures.intervals(found, colour), "Aggregates with 95 % intervals. (aggregates.csv)"),
            Picture(figures.profiles(found, colour), "Performance profiles, with 95 % intervals. (profiles.csv)"),
        ]
    table = aggregates_table(matrices, found)
    return [Section(table.title, pictures, [table])], [profiles_table(found)], matrices


def write_report(runs: Sequence[Run], out: Path, o: ReportOptions) -> list[Path]:
    """index.html and its tables as CSV; returns the files."""
    settings = by_setting(runs)
    learners = [r for r in runs if not families.samples_only(r.settings)]
    learnt = by_setting(learners)
    named = [n for n in shown_figures(learners) if n not in (*SECONDARY_FIGURES, *NORM_FIGURES)]
    drawn: list[Section] = []
    hidden: list[Table] = []
    for sections, tables in (
        secondary_learners(learners),
        norms_of_layers(learners),
        learning_curves(learnt, o.curve, named),
    ):
        drawn += sections
        hidden += tables
    own = paper_tables(runs, learnt)
    aggregated, profiles, matrices = aggregates(learnt, o)
    scores, throughput = scores_table(learnt, o.score), throughput_table(settings)
    have = {table.name for section in own for table in section.tables}
    published_only = [t for t in (table_of_49(), *tables_of_times()) if t.name not in have]
    of_tables = any(r.experiment for r in runs) and not shown_figures(runs)
    sections = [
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
    """What a reader must know of the runs before the numbers."""
    found = [f"{r.name}: unfinished, {r.unfinished}" for r in runs if r.unfinished]
    found += [
        f"{r.name}: no score yet" for r in runs if np.isnan(r.score("final")) and not families.samples_only(r.settings)
    ]
    without = sorted({r.game for r in runs if not published(r.game)})
    if without:
        found.append(f"without published scores, so in no aggregate: {', '.join(without)}")
    protocols = sorted({r.protocol for r in runs if r.protocol})
    if len(protocols) > 1:
        found.append(f"the runs were not played by one protocol: {', '.join(protocols)}")
    if matrices and any(len(games) < len(ATARI_49) for games, _ in matrices.values()):
        found.append("aggregates are over fewer than the 49 games: compare rows with the same games alone")
    return found
