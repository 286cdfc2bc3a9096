"""A report consists of one page of pictures and tables, and CSV files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from accel_rl.envs.atari_games import GAMES, human_scale
from accel_rl.metrics.plot import colours
from accel_rl.papers.paper import reported_papers
from accel_rl.papers.published import published, rule_differences, table_of_49
from accel_rl.papers.stooke.stooke_tables import claims, shown_figures, title
from accel_rl.report import layer_norms, panels, searched_trials
from accel_rl.report.aggregate_section import aggregate_section
from accel_rl.report.aggregates import Scores
from accel_rl.report.costs import costs_table
from accel_rl.report.curves import Over, curves_table
from accel_rl.report.equal_steps import equal_steps_sections
from accel_rl.report.page import page
from accel_rl.report.panels import panels_table
from accel_rl.report.panels import pictures as pictures_of
from accel_rl.report.sample_efficiency import efficiency_section
from accel_rl.report.scores import scores_table, throughput_table
from accel_rl.results import run_settings
from accel_rl.results.section import Picture, Section
from accel_rl.results.table import Table
from accel_rl.results.trained_run import BySetting, TrainedRun, by_setting
from accel_rl.text.counts import Count, counted

MOST_NOTES = 10  # A report shows at most ten notes of one kind.


@dataclass(frozen=True)
class ReportOptions:
    csv: tuple[str, ...] = ()
    """Results of other tools: CSV files with the columns game, seed, step, score (and optionally tool, wall_s)."""
    out: str = "report"
    """Folder in which index.html and the CSV files are written."""
    score: Literal["final", "best", "online"] = "final"
    """Score of each run in the tables. With `final`, the score is that of the run's last evaluation, and with `best`
    that of its best evaluation (Daley & Amato). Evaluations of few episodes are ignored. With `online`, or for runs
    without evaluations, the score is the last training score."""
    curve: Literal["auto", "online", "evaluation"] = "auto"
    """Scores in learning curves: training scores (`online`) or evaluations. With `auto`, the curves of policy gradients
    show training scores (Stooke & Abbeel). Curves of other algorithms show evaluations if every run has at least three
    evaluations, and otherwise training scores."""
    reps: Count = 2_000
    """Number of bootstrap samples from which an interval is computed."""
    human: Literal["wang2016", "nair2015"] = "wang2016"
    """Scores of random and human players from which human-normalised scores are computed: those of Wang et al. 2016
    for 57 games, which most papers use, or those of Nair et al. 2015 for 49 games."""
    core_hour_price: float = 0.0
    """Price of a core for an hour, in any currency, from which the report computes the price of 200 M frames. With 0,
    no prices are reported."""


def write_report(runs: Sequence[TrainedRun], out: Path, o: ReportOptions) -> list[Path]:
    """Write index.html and its tables as CSV, and return the files. `runs` must come from the function `distinct`."""
    settings = by_setting(runs)
    learners = [r for r in runs if not run_settings.samples_only(r.settings)]
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
    of_papers = [section for paper in reported_papers() for section in paper.sections(runs, learnt)]
    aggregated, profiles, normalised = aggregate_section(learnt, o.score, o.reps, o.human)
    scores, throughput = scores_table(learnt, o.score, o.human), throughput_table(settings)
    costs = costs_table(settings, o.core_hour_price)
    have = {table.name for section in of_papers for table in section.tables}
    published_only = [
        t
        for t in (table_of_49(), *(t for paper in reported_papers() for t in paper.published_tables()))
        if t.name not in have and any(r.game in GAMES for r in runs)
    ]
    of_tables = any(r.experiment for r in runs) and not shown_figures(runs)
    sections = [
        *searches(runs),
        *equal_steps_sections(learnt, o.reps, o.human),
        *(of_papers + drawn if of_tables else drawn + of_papers),
        Section.of(scores),
        aggregated,
        *efficiency_section(learnt, o.curve, o.reps, o.human),
        Section.of(throughput),
        *([Section.of(costs)] if costs.rows else []),
        *map(Section.of, published_only),
    ]
    out.mkdir(parents=True, exist_ok=True)
    shown = [t for section in sections for t in section.tables]
    written = [table.write(out) for table in (*shown, *hidden, profiles)]
    index = out / "index.html"
    index.write_text(page(runs, sections, notes(runs, normalised, o.human)))
    return [index, *written]


def notes(runs: Sequence[TrainedRun], normalised: Mapping[str, Scores], scale: str) -> list[str]:
    result = _some([f"{r.setting} in {r.game}: {r.repeated}" for r in runs if r.repeated])
    result += _some([f"{r.name}: unfinished, {r.unfinished}" for r in runs if r.unfinished and r.part <= 1])
    result += _some([f"{r.name}: {text}" for r in runs if (text := _short_evaluations(r))])
    without_score = [r for r in runs if np.isnan(r.score("final")) and not run_settings.samples_only(r.settings)]
    result += _some([f"{r.name}: no score yet" for r in without_score])
    if without := sorted({r.game for r in runs if human_scale(r.game, scale) is None}):
        result.append(f"not in the human scale {scale}, so in no aggregate: {', '.join(without)}")
    protocols = sorted({r.protocol for r in runs if r.protocol})
    if len(protocols) > 1:
        result.append(f"the runs have different Atari protocols: {', '.join(protocols)}")
    rules = {", ".join(rule_differences(r.settings)) for r in runs if published(r.game) and r.settings}
    result += [f"published scores are by other rules than the runs: {text}" for text in sorted(rules) if text]
    if len({frozenset(scores) for scores in normalised.values()}) > 1:
        result.append("settings have different games: compare only aggregates with the same games")
    return result


def _short_evaluations(run: TrainedRun) -> str:
    """A line about the run's evaluations of few episodes, which are not used as scores, or "" without such
    evaluations."""
    if not (n := int(run.short.sum())):
        return ""
    fewest = int(run.episodes[1].min())
    return f"{counted(n, 'evaluation')} of few episodes ({fewest} at least) left out of scores"


def _some(lines: list[str]) -> list[str]:
    """The first MOST_NOTES notes, and a line with the number of omitted notes."""
    return lines if len(lines) <= MOST_NOTES else [*lines[:MOST_NOTES], f"and {len(lines) - MOST_NOTES} more like this"]


MEAN = "mean over seeds, to the end of the longest run, band from minimum to maximum"
CAPTION = (
    f"{MEAN.capitalize()}; training scores are of the last 100 episodes (of several games, 100 times their number). A "
    "circle ends curves of unfinished runs."
)
SECONDARY_FIGURES, NORM_FIGURES = ("6", "7", "8"), ("9",)  # Stooke & Abbeel's other figures are learning curves.
OVERS: tuple[tuple[Over, str], ...] = (("env steps", "curves"), ("minutes", "curves_by_time"))

Shown = tuple[list[Section], list[Table]]
"""`Shown` is a pair: sections of the report's page, and tables that are only written as CSV files."""


def learning_curves(settings: BySetting, curve: str) -> Shown:
    """Pictures of scores over env steps and over minutes."""
    rows = panels.grouped(settings)
    figures_here = shown_figures([r for games in settings.values() for same in games.values() for r in same])
    named = [n for n in figures_here if n not in (*SECONDARY_FIGURES, *NORM_FIGURES)]
    heading = title(named) if named else "Learning curves"
    sections, hidden = [], []
    for over, name in OVERS:
        bands = panels.bands_of(rows, curve, over)
        shown = f"{heading}, by {over}"
        hidden.append(curves_table(name, shown, list(bands.values())))
        pictures = panels.drawn(bands, settings, over, f"{CAPTION} ({name}.csv)")
        said = claims(named) if over == "env steps" else []
        said += panels.left_out(bands, settings, over) if pictures else ["no run has a score to draw yet"]
        if settings:
            sections.append(Section(shown, pictures, notes=said))
    return sections, hidden


def secondary_learners(runs: Sequence[TrainedRun]) -> Shown:
    """Figures 6 to 8 of Stooke & Abbeel 2018."""
    sections, hidden = [], []
    with_secondary = [r for r in runs if layer_norms.has_secondary(r)]
    named = [n for n in shown_figures(with_secondary) if n in SECONDARY_FIGURES] or list(SECONDARY_FIGURES)
    result = layer_norms.secondary_panels(with_secondary)
    colour = colours(list(layer_norms.SHORT.values()))
    pictures = [
        picture
        for quantity, of_quantity in result.items()
        for picture in pictures_of(of_quantity, colour, f"{quantity}: {MEAN} (norms.csv)")
    ]
    if with_secondary:
        missing = [f"no run has values of this yet: {q}" for q in layer_norms.QUANTITIES if q not in result]
        sections.append(Section(title(named), pictures, notes=claims(named) + missing))
        panels = [p for of_quantity in result.values() for p in of_quantity]
        hidden.append(panels_table("secondary", "Secondary learners", panels))
    return sections, hidden


def norms_of_layers(runs: Sequence[TrainedRun]) -> Shown:
    """Figure 9 of Stooke & Abbeel 2018, with a picture for each game."""
    sections, hidden = [], []
    with_norms = [r for r in runs if layer_norms.has_norms(r) and not layer_norms.has_secondary(r)]
    by_game = {game: [r for r in with_norms if r.game == game] for game in sorted({r.game for r in with_norms})}
    result = {game: panels for game, same in by_game.items() if (panels := layer_norms.panels(same))}
    pictures = [Picture(layer_norms.drawn(p), f"{game}: {MEAN} (norms.csv)") for game, p in result.items()]
    if with_norms:
        said = claims(NORM_FIGURES) if set(shown_figures(with_norms)) & set(NORM_FIGURES) else []
        said += [f"no norms of {game} yet" for game in by_game if game not in result]
        sections.append(Section(title(NORM_FIGURES), pictures, notes=said))
        hidden.append(panels_table("norms", "Norms of the layers", [p for panels in result.values() for p in panels]))
    return sections, hidden


def searches(runs: Sequence[TrainedRun]) -> list[Section]:
    result = []
    for one in searched_trials.searches(runs):
        table = one.table()
        caption = f"Score of each complete trial by its settings ({table.name}.csv)"
        has_points = table.columns[3:] and any(row[2] for row in table.rows)
        pictures = [Picture(one.drawn(), caption)] if has_points else []
        result.append(Section(table.title, pictures, [table]))
    return result
