"""The report: what each table holds, and the page and files that they become."""

import statistics as stats
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from accel_rl.counts import Count
from accel_rl.envs.games import ATARI_49
from accel_rl.report import figures
from accel_rl.report.curves import Band, band, shows_evaluations
from accel_rl.report.page import Picture, page
from accel_rl.report.papers import daley_hours, percent, published, stooke_hours, table_of_49, tables_of_times
from accel_rl.report.runs import Run, by_setting
from accel_rl.report.statistics import TAUS, Summary, matrix, summarise
from accel_rl.report.table import Table, number

FULL_LENGTH = 50_000_000  # env steps: the length that the papers' times are for
PAPERS = {"dqn": "DQN (Mnih et al. 2015)", "gorila": "Gorila (Nair et al. 2015)", "daley": "Daley & Amato 2021"}
NAMES = {"random": "Random", "human": "Human", "dqn": "DQN", "gorila": "Gorila", "daley": "Daley & Amato"}

Settings = Mapping[str, Mapping[str, Sequence[Run]]]


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
    """What learning curves show; auto: evaluations where every run has three, else training scores."""
    reps: Count = 2_000
    """Bootstrap samples of an interval."""


def scores_table(settings: Settings, which: str) -> Table:
    """A row a game and setting: score, spread over seeds, human-normalised, beside the published scores."""
    rows = []
    games = list(dict.fromkeys(g for found in settings.values() for g in found))
    for game in sorted(games):
        row = published(game)
        for setting, found in settings.items():
            scored = [r for r in found.get(game, ()) if not np.isnan(r.score(which))]
            values = [r.score(which) for r in scored]
            if not values:
                continue
            mean = float(np.mean(values))
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            rows.append(
                [
                    game,
                    setting,
                    str(len(values)),
                    number(stats.mean(r.env_steps for r in scored), 0),
                    "evaluation" if scored[0].evaluated and which != "online" else "training",
                    number(mean),
                    number(spread),
                    number(percent(game, mean), 1) if row else "",
                    *(number(row.get(name)) for name in NAMES),
                ]
            )
    columns = ["game", "setting", "seeds", "env steps", "played in", "score", "deviation", "%", *NAMES.values()]
    note = (
        f"Score: the {which} one of each run, mean over seeds; deviation: of a seed (n - 1). %: 100 (score - random) / "
        "(human - random). Published: null-op starts, see the last tables."
    )
    return Table("scores", "Scores", columns, rows, note)


Matrices = Mapping[str, tuple[list[str], np.ndarray]]


def normalised(settings: Settings, which: str) -> Matrices:
    """(games, human-normalised scores [seeds, games]) of each setting, then of the papers over all of these games."""
    matrices: dict[str, tuple[list[str], np.ndarray]] = {}
    for setting, found in settings.items():
        games, scores = matrix(found, which)
        if scores.size:
            matrices[setting] = (games, scores)
    ours = sorted({g for games, _ in matrices.values() for g in games})
    for name, label in PAPERS.items() if ours else ():
        matrices[label] = (ours, np.array([[percent(g, published(g)[name]) / 100 for g in ours]]))
    return matrices


def aggregates_table(matrices: Matrices, found: Mapping[str, Summary]) -> Table:
    rows = []
    for label, s in found.items():
        games, scores = matrices[label]
        cells = [number(100 * x, 1) for v in (s.median, s.iqm) for x in (v.value, v.low, v.high)]
        rows.append([label, str(len(games)), str(len(scores)), *cells])
    columns = ["setting", "games", "seeds", "median %", "low", "high", "IQM %", "low", "high"]
    note = (
        "Human-normalised, over the games with published scores. Median over games of the mean over seeds; "
        "interquartile mean over all runs; 95 % intervals of a bootstrap over seeds, stratified by game (rliable): "
        "none for one seed. The papers' rows: their printed scores, over all games that any setting here has. Rows "
        "of other games are not comparable."
    )
    return Table("aggregates", "Aggregates over games", columns, rows, note)


def throughput_table(settings: Settings) -> Table:
    """Steps/s and hours for 50 M env steps, beside the papers' on one GPU."""
    rows = []
    for setting, found in settings.items():
        for game, runs in sorted(found.items()):
            timed = [r for r in runs if r.wall_s > 0 and r.env_steps]
            if not timed:
                continue
            rates = [r.env_steps / r.wall_s for r in timed]
            rate = stats.mean(rates)
            rows.append(
                [
                    setting,
                    game,
                    str(len(rates)),
                    number(rate, 0),
                    number(stats.stdev(rates), 0) if len(rates) > 1 else "",
                    number(FULL_LENGTH / rate / 3600, 2),
                    number(stooke_hours(timed[0].settings)),
                    number(daley_hours(timed[0].settings)),
                ]
            )
    columns = [
        "setting",
        "game",
        "runs",
        "env steps/s",
        "deviation",
        "hours for 50 M",
        "Stooke & Abbeel",
        "Daley & Amato",
    ]
    note = (
        "Whole runs, with their evaluations and checkpoints, on the cores and GPUs that each had; beside them the "
        "papers' hours of the same settings: one P100 and 5 cores; one GTX 1080 and 8 threads."
    )
    return Table("throughput", "Throughput", columns, rows, note)


def curve_bands(settings: Settings, curve: str) -> dict[str, dict[str, Band]]:
    """{game: {setting: band}}."""
    found: dict[str, dict[str, Band]] = {}
    for game in sorted({g for games in settings.values() for g in games}):
        evaluations = shows_evaluations([r for games in settings.values() for r in games.get(game, ())], curve)
        for setting, games in settings.items():
            b = band(games.get(game, ()), evaluations)
            if b is not None:
                found.setdefault(game, {})[setting] = b
    return found


def curves_table(bands: Mapping[str, Mapping[str, Band]]) -> Table:
    rows = [
        [game, setting, b.what, str(b.seeds), number(s, 0), number(m), number(low), number(high)]
        for game, settings in bands.items()
        for setting, b in settings.items()
        for s, m, low, high in zip(b.steps, b.mean, b.low, b.high, strict=True)
    ]
    columns = ["game", "setting", "score of", "seeds", "env steps", "mean", "low", "high"]
    return Table("curves", "Learning curves", columns, rows)


def profiles_table(found: Mapping[str, Summary]) -> Table:
    rows = [
        [label, number(100 * t, 0), number(share, 4), number(low, 4), number(high, 4)]
        for label, s in found.items()
        for t, share, low, high in zip(TAUS, s.share, s.share_low, s.share_high, strict=True)
    ]
    return Table("profiles", "Performance profiles", ["setting", "t %", "share above", "low", "high"], rows)


def write_report(runs: Sequence[Run], out: Path, o: ReportOptions) -> list[Path]:
    """index.html and its tables as CSV; returns the files."""
    settings = by_setting(runs)
    colour = figures.colours(list(settings))
    bands = curve_bands(settings, o.curve)
    matrices = normalised(settings, o.score)
    found = {label: summarise(scores, o.reps) for label, (_, scores) in matrices.items()}

    pictures: dict[str, list[Picture]] = {}
    caption = "Mean over seeds, band from the least to the greatest; training scores are of the last 100 episodes."
    pictures["curves"] = [Picture(png, caption) for png in figures.curves(bands, colour)]
    if found:
        pictures["aggregates"] = [
            Picture(figures.intervals(found, colour), "Aggregates with 95 % intervals."),
            Picture(figures.profiles(found, colour), "Performance profiles, with 95 % intervals."),
        ]
    shown = [
        scores_table(settings, o.score),
        aggregates_table(matrices, found),
        throughput_table(settings),
        table_of_49(),
        *tables_of_times(),
    ]
    out.mkdir(parents=True, exist_ok=True)
    written = [table.write(out) for table in (*shown, curves_table(bands), profiles_table(found))]
    index = out / "index.html"
    index.write_text(page(runs, shown, pictures, notes(runs, matrices)))
    return [index, *written]


def notes(runs: Sequence[Run], matrices: Matrices) -> list[str]:
    """What a reader must know of the runs before the numbers."""
    found = [f"{r.name}: unfinished, {r.unfinished}" for r in runs if r.unfinished]
    found += [f"{r.name}: no score yet" for r in runs if np.isnan(r.score("final"))]
    without = sorted({r.game for r in runs if not published(r.game)})
    if without:
        found.append(f"without published scores, so in no aggregate: {', '.join(without)}")
    protocols = sorted({r.protocol for r in runs if r.protocol})
    if len(protocols) > 1:
        found.append(f"the runs were not played by one protocol: {', '.join(protocols)}")
    if matrices and any(len(games) < len(ATARI_49) for games, _ in matrices.values()):
        found.append("aggregates are over fewer than the 49 games: compare rows with the same games alone")
    return found
