"""This module has the commands `plot`, `report` and `games`."""

import math
from dataclasses import dataclass
from pathlib import Path

from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.config.train import read_settings
from accel_rl.envs.atari_games import table
from accel_rl.metrics.plot import draw, gather
from accel_rl.report.report import ReportOptions, write_report
from accel_rl.report.runs import find_runs, read_csv, read_runs
from accel_rl.results.trained_run import distinct
from accel_rl.system.counts import counted
from accel_rl.system.errors import ConfigError


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
    """Run the command accel-rl plot RUN [RUN ...] [options]."""
    words, options = positionals(argv, ["a folder of a run or a sweep"], "accel-rl plot", many=True)
    chosen = parse(
        PlotOptions,
        options,
        "accel-rl plot RUN [RUN ...]",
        "Draw learning curves as a PNG: a panel for each game, and in it a curve for each setting with the spread over "
        "its seeds.",
    )
    folders = [Path(w).expanduser() for w in words]
    runs = find_runs(folders)
    curves = gather({run: read_settings(run) for run in runs}, chosen.x, chosen.y)
    out = Path(chosen.out).expanduser() if chosen.out else (folders[0] if len(folders) == 1 else Path()) / "curve.png"
    if out.suffix not in (".png", ".pdf", ".svg"):
        raise ConfigError(f"--out {out}: must end in .png, .pdf or .svg")
    draw(curves, out, chosen.x, chosen.y)
    for curve in curves:
        for line in curve.repeated:
            stdout(f"{curve.label}: {line}")
    stdout(f"{out}: {', '.join(c.label for c in curves)}")
    return 0


def report_command(argv: list[str]) -> int:
    """Run the command accel-rl report RUNS [options]."""
    words, options = positionals(argv, [], "accel-rl report", many=True)
    chosen = parse(
        ReportOptions,
        options,
        "accel-rl report RUNS",
        "Compare runs (folders of runs or sweeps) with published results in tables and plots: one HTML page, and CSV.",
    )
    if not words and not chosen.csv:
        raise ConfigError("accel-rl report: a folder of runs is missing (or --csv FILE)")
    if chosen.reps < 1:
        raise ConfigError(f"--reps {chosen.reps}: must be at least 1")
    if not 0 <= chosen.core_hour_price < math.inf:
        raise ConfigError(f"--core-hour-price {chosen.core_hour_price}: must be a number, 0 or more")
    out = Path(chosen.out).expanduser()
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file")
    runs = read_runs([Path(w).expanduser() for w in words]) if words else []
    runs += [r for file in chosen.csv for r in read_csv(Path(file).expanduser())]
    runs = distinct(runs)
    files = write_report(runs, out, chosen)
    for run in runs:
        if run.repeated:
            stdout(f"{run.setting} in {run.game}: {run.repeated}")
    stdout(f"{files[0]}: {counted(len(runs), 'run')}; {counted(len(files) - 1, 'table')} as CSV in the same folder")
    return 0


def games_command(argv: list[str]) -> int:
    """Run the command accel-rl games."""
    if argv and argv[0] not in ("-h", "--help"):
        raise ConfigError(f"accel-rl games takes no arguments; got {argv[0]!r}")
    stdout("\n".join(table()))
    return 0
