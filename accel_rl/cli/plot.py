"""accel-rl plot RUN [RUN ...] [options]"""

from dataclasses import dataclass
from pathlib import Path

from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.config.train import read_settings
from accel_rl.metrics.plot import draw, gather
from accel_rl.report.runs import find_runs
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class PlotOptions:
    out: str = ""
    """File to write. Default: curve.png in the folder of the run or sweep, or in the current folder for several."""
    x: str = "env_steps"
    """Column of metrics.csv on the x axis: env_steps, wall_s ...; or minutes."""
    y: str = "score"
    """Column of metrics.csv on the y axis: score, eval_score, entropy ..."""


def main(argv: list[str]) -> int:
    """accel-rl plot RUN [RUN ...] [options]"""
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
