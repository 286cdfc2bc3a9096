"""The commands `plot` and `report`, which compare runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_rl.envs.atari_games import named_games
from accel_rl.metrics.plot import columns_of, draw, gather
from accel_rl.parsing.arguments import command, stdout
from accel_rl.report.labels import labelled
from accel_rl.report.report import ReportOptions, write_report
from accel_rl.report.runs import read_csv, read_runs
from accel_rl.results.trained_run import TrainedRun, distinct
from accel_rl.run.listed_runs import find_runs
from accel_rl.settings.train import read_settings
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError
from accel_rl.text.output import escaped


@dataclass(frozen=True)
class PlotOptions:
    out: str = ""
    """File of the plot, by default curve.png in the folder of the run or sweep, or in the current folder for several
    runs."""
    x: str = "env_steps"
    """Column of metrics.csv on the x axis, such as env_steps or wall_s, or minutes."""
    y: str = "score"
    """Column of metrics.csv on the y axis, such as score, eval_score or entropy."""


def plot_command(argv: list[str]) -> int:
    does = (
        "Draw learning curves as a PNG: a panel for each game, and in it a curve for each setting with the spread over "
        "its seeds."
    )
    required = ("a folder of a run or a sweep",)
    words, chosen = command(PlotOptions, argv, "accel-rl plot RUN [RUN ...]", does, required, many=True)
    folders = [Path(word).expanduser() for word in words]
    columns = columns_of(find_runs(folders), chosen.x, chosen.y)
    curves = gather(columns, labelled([read_settings(run) for run in columns]))
    out = Path(chosen.out).expanduser() if chosen.out else (folders[0] if len(folders) == 1 else Path()) / "curve.png"
    if out.suffix not in (".png", ".pdf", ".svg"):
        raise ConfigError(f"--out {out}: must end in .png, .pdf or .svg")
    draw(curves, out, chosen.x, chosen.y)
    for curve in curves:
        for line in curve.repeated:
            stdout(escaped(f"{curve.label} in {curve.game}: {line}"))
    stdout(escaped(f"{out}: {'; '.join(f'{curve.legend} in {curve.game}' for curve in curves)}"))
    return 0


@dataclass(frozen=True)
class ReportCommandOptions(ReportOptions):
    games: tuple[str, ...] = ()
    """Report only the runs of these games. A name is a game, or one of the lists atari5, atari10, atari26, atari49 and
    atari57."""


def report_command(argv: list[str]) -> int:
    does = (
        "Compare runs (folders of runs or sweeps) with published results in tables and plots: one HTML page, and CSV."
    )
    words, chosen = command(ReportCommandOptions, argv, "accel-rl report RUNS", does, many=True)
    folders = [Path(word).expanduser() for word in words]
    if not folders and not chosen.csv:
        raise ConfigError("accel-rl report: a folder of runs is missing (or --csv FILE)")
    if chosen.reps < 1:
        raise ConfigError(f"--reps {chosen.reps}: must be at least 1")
    if not 0 <= chosen.core_hour_price < math.inf:
        raise ConfigError(f"--core-hour-price {chosen.core_hour_price}: must be a number, 0 or more")
    out = Path(chosen.out).expanduser()
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file")
    runs = read_runs(folders) if folders else []
    runs += [r for file in chosen.csv for r in read_csv(Path(file).expanduser())]
    runs = distinct(of_games(runs, chosen.games) if chosen.games else runs)
    files = write_report(runs, out, chosen)
    for run in runs:
        if run.repeated:
            stdout(escaped(f"{run.setting} in {run.game}: {run.repeated}"))
    count = len({run.path or run.name for run in runs})
    stdout(f"{files[0]}: {counted(count, 'run')}; {counted(len(files) - 1, 'table')} as CSV in the same folder")
    return 0


def of_games(runs: Sequence[TrainedRun], names: Sequence[str]) -> list[TrainedRun]:
    """Select the runs of the games in `names`. Raises ConfigError for an unknown name, or if no run is selected."""
    present = list(dict.fromkeys(run.game for run in runs))
    wanted: set[str] = set()
    for name in names:
        try:
            # Runs of CSV files and of Gymnasium ids may have games that are not Atari games.
            wanted.update((name,) if name in present else named_games([name]))
        except ConfigError as e:
            raise ConfigError(f"--games {e}") from e
    if not (result := [run for run in runs if run.game in wanted]):
        raise ConfigError(f"--games {' '.join(names)}: no run of these games; the runs have: {', '.join(present)}")
    return result
