"""Sections of the report: pictures, and the papers' tables for the given runs."""

from collections.abc import Sequence

from accel_rl.report import cule, daley, figures, gorila, gorila_figures, learning, norms, search, secondary, stooke
from accel_rl.report.aggregates import Matrices, aggregates_table, normalised, profiles_table
from accel_rl.report.canvas import colours
from accel_rl.report.claims import claims, shown_figures, title
from accel_rl.report.curves import Over, Settings, curves_table
from accel_rl.report.gorila_scores import KINDS, NAMES, OURS, PAPER
from accel_rl.report.page import Picture, Section
from accel_rl.report.panels import panels_table, wrapped
from accel_rl.report.run import Run
from accel_rl.report.statistics import summarise
from accel_rl.report.table import Table

MEAN = "mean over seeds, band from minimum to maximum"
CAPTION = f"{MEAN.capitalize()}; training scores are of the last 100 episodes."
SECONDARY_FIGURES, NORM_FIGURES = ("6", "7", "8"), ("9",)  # the others are learning curves
OVERS: tuple[tuple[Over, str], ...] = (("env steps", "curves"), ("minutes", "curves_by_time"))

Shown = tuple[list[Section], list[Table]]
"""Sections of the page, and tables that are written as CSV but not shown."""


def learning_curves(settings: Settings, curve: str) -> Shown:
    """Build the sections of scores against env steps and against minutes."""
    rows = learning.grouped(settings)
    figures_here = shown_figures([r for games in settings.values() for same in games.values() for r in same])
    named = [n for n in figures_here if n not in (*SECONDARY_FIGURES, *NORM_FIGURES)]
    heading = title(named) if named else "Learning curves"
    sections, hidden = [], []
    for over, name in OVERS:
        bands = learning.bands_of(rows, curve, over)
        shown = f"{heading}, by {over}"
        hidden.append(curves_table(name, shown, list(bands.values())))
        pictures = [Picture(png, f"{CAPTION} ({name}.csv)") for png in learning.drawn(bands, settings, over)]
        said = claims(named) if over == "env steps" else []
        said += learning.left_out(bands, settings, over) if pictures else ["no run has a score to draw yet"]
        if settings:
            sections.append(Section(shown, pictures, notes=said))
    return sections, hidden


def secondary_learners(runs: Sequence[Run]) -> Shown:
    """Build the section of Figures 6 to 8."""
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
    if here:
        missing = [f"no run has values of this yet: {q}" for q in secondary.QUANTITIES if q not in found]
        sections.append(Section(title(named), pictures, notes=claims(named) + missing))
        panels = [p for there in found.values() for p in there]
        hidden.append(panels_table("secondary", "Secondary learners", panels))
    return sections, hidden


def norms_of_layers(runs: Sequence[Run]) -> Shown:
    """Build the section of Figure 9, with a picture for each game."""
    sections, hidden = [], []
    here = [r for r in runs if norms.has_norms(r) and not secondary.has_secondary(r)]
    by_game = {game: [r for r in here if r.game == game] for game in sorted({r.game for r in here})}
    found = {game: panels for game, same in by_game.items() if (panels := norms.panels(same))}
    pictures = [Picture(norms.drawn(p), f"{game}: {MEAN} (norms.csv)") for game, p in found.items()]
    if here:
        said = claims(NORM_FIGURES) if set(shown_figures(here)) & set(NORM_FIGURES) else []
        said += [f"no norms of {game} yet" for game in by_game if game not in found]
        sections.append(Section(title(NORM_FIGURES), pictures, notes=said))
        hidden.append(panels_table("norms", "Norms of the layers", [p for panels in found.values() for p in panels]))
    return sections, hidden


def searches(runs: Sequence[Run]) -> list[Section]:
    """Build a section for each search (`accel-rl search`)."""
    found = []
    for one in search.searches(runs):
        table = one.table()
        caption = f"Score of each complete trial by its settings ({table.name}.csv)"
        pictures = [Picture(one.drawn(), caption)] if one.settings else []
        found.append(Section(table.title, pictures, [table]))
    return found


def paper_tables(runs: Sequence[Run], settings: Settings) -> list[Section]:
    """Build the sections of the papers' tables that contain some of the runs."""
    found = [
        Section(t.title, tables=[t]) for t in (*stooke.tables(runs), *daley.speed_tables(runs), *cule.tables(runs))
    ]
    found += [Section(t.title, tables=(t, counts)) for t, counts in daley.suite_tables(settings)]
    return found + gorila_sections(settings)


def gorila_sections(settings: Settings) -> list[Section]:
    """Build the sections of tables 1 to 4 and figures 3 to 5 of Nair et al. 2015."""
    found = []
    for setting in gorila.settings_with_scores(settings):
        found += [Section(t.title, tables=[t]) for t in setting.tables()]
        pictures = [
            Picture(gorila_figures.drawn_bars(bars, label), caption)
            for bars, label, caption in gorila_figures.bars(setting)
        ]
        title = f"{PAPER}, figures 3 and 4 ({setting.name})"
        found.append(Section(title, pictures, notes=[OURS]))
        for starts, kind in KINDS.items():
            if (progress := gorila_figures.progress(setting, starts)) is not None:
                png, table = gorila_figures.figure_5(progress, setting)
                title = f"{PAPER}, figure 5: {NAMES[kind]} ({setting.name})"
                found.append(Section(title, [Picture(png, f"Share of games over time ({table.name}.csv)")], [table]))
    return found


def aggregates(learnt: Settings, score: str, reps: int) -> tuple[list[Section], list[Table], Matrices]:
    matrices = normalised(learnt, score)
    found = {label: summarise(scores, reps) for label, (_, scores) in matrices.items()}
    colour = colours(list(learnt))
    pictures = []
    if found:
        pictures = [
            Picture(figures.intervals(found, colour), "Aggregates with 95 % intervals. (aggregates.csv)"),
            Picture(figures.profiles(found, colour), "Performance profiles, with 95 % intervals. (profiles.csv)"),
        ]
    table = aggregates_table(matrices, found)
    return [Section(table.title, pictures, [table])], [profiles_table(found)], matrices
