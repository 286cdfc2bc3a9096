"""Measure the pace of a run, from the rows of metrics that the run has written since its last launch."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from accel_rl.metrics.metrics_file import read_metrics
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder

RECENT = 5
"""A run's rate is measured over its newest `RECENT` rows, because rates change during a run: for example, a replay is
first filled by random actions."""


class Host(NamedTuple):
    """The hardware that a run uses, as far as the run's rate depends on it."""

    cpu: str
    cores: int
    gpus: int


@dataclass(frozen=True)
class Pace:
    """`rate` is in env steps/s, without evaluations, and NaN if unknown. `evaluation_s` is the mean duration of an
    evaluation, and NaN before the first evaluation. `wall_s` is the time from the beginning of sampling to the newest
    row, which was written at `read_at` (Unix time). `host` is None if it is unknown."""

    host: Host | None
    env_steps: int
    rate: float
    evaluation_s: float
    wall_s: float
    read_at: float


def kind_of(settings: dict[str, Any]) -> str:
    """Return a text that is equal for runs of equal speed: the settings without game, seed, length, evaluation interval
    and folder."""
    alike = {k: v for k, v in settings.items() if k not in ("seed", "env_steps", "run_dir")}
    alike["env"] = {k: v for k, v in settings["env"].items() if k != "game"}
    alike["evaluation"] = {k: v for k, v in settings["evaluation"].items() if k != "interval"}
    return json.dumps(alike, sort_keys=True)


def read_pace(run: Path, warm_s: float) -> Pace | None:
    """Measure the pace of a run, or return None if the run has written no row since its last launch. The rate excludes
    rows of the first `warm_s` seconds, and rows before the first update."""
    launch = (launches.read(RunFolder(run)) or [{"env_steps": 0}])[-1]
    file = run / "metrics.csv"
    try:
        read_at = file.stat().st_mtime
        return _measured(read_metrics(file).rows, int(launch["env_steps"]), warm_s, read_at, _host(launch))
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):  # The run is rewriting metrics.csv.
        return None


def _host(launch: dict[str, Any]) -> Host | None:
    if "cpu" not in launch:
        return None
    return Host(str(launch["cpu"]), int(launch["cores"]), len(launch["gpus"]))


def _measured(rows: list[dict[str, str]], began: int, warm_s: float, read_at: float, host: Host | None) -> Pace | None:
    steps, wall_s, began_s = began, 0.0, 0.0
    trained, evaluations = [], []
    for row in rows:
        row_steps, row_s = int(row["env_steps"]), float(row["wall_s"])
        if row_steps <= began:
            wall_s = began_s = row_s
            continue
        train_s = (row_steps - steps) / float(row["steps_per_s"])
        if row_s - began_s >= warm_s and int(row["updates"] or 0) > 0:
            trained.append((row_steps - steps, train_s))
        if row["eval_score"]:
            evaluations.append(max(0.0, row_s - wall_s - train_s))
        steps, wall_s = row_steps, row_s
    if steps == began:
        return None
    recent = trained[-RECENT:]
    rate = sum(n for n, _ in recent) / sum(s for _, s in recent) if recent else math.nan
    evaluation_s = sum(evaluations) / len(evaluations) if evaluations else math.nan
    return Pace(host, steps, rate, evaluation_s, wall_s - began_s, read_at)
