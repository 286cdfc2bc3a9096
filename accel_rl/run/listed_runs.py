"""Finds run folders and reads the progress of runs for lists of runs, without importing torch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_rl.metrics.metrics_file import cells, number
from accel_rl.text.errors import ConfigError

# Folders with the file model.json contain exported models instead of runs.
MODEL = "model.json"
DEPTH = 2  # The runs in a folder of sweeps are two levels below this folder.
TAIL = 8_192  # The last row of metrics.csv is searched in the last TAIL bytes of the file.


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """The run folders among the given folders and their subfolders, in order. Raises ConfigError if a folder contains
    no run."""
    result: dict[Path, None] = {}
    for folder in folders:
        configured = [p.parent for depth in range(DEPTH + 1) for p in sorted(folder.glob("*/" * depth + "config.json"))]
        folders_of_runs = [p for p in configured if not (p / MODEL).exists()]
        if not folders_of_runs and configured:
            raise ConfigError(f"{folder} holds no run: {configured[0]} is an exported model ({MODEL})")
        if not folders_of_runs:
            raise ConfigError(f"{folder} holds no run (no config.json in it, nor {DEPTH} folders below)")
        result.update(dict.fromkeys(folders_of_runs))
    return list(result)


@dataclass(frozen=True)
class Progress:
    """`Progress` contains the newest metrics of a run. `score` is NaN before the first finished episode."""

    env_steps: int = 0
    score: float = math.nan
    steps_per_s: float = math.nan
    updates: int = 0


def read_progress(run: Path) -> Progress:
    """Read the progress of a run from its folder. Before the first row of metrics.csv, counts are 0 and other numbers
    are NaN."""
    try:
        with open(run / "metrics.csv", "rb") as f:
            header = f.readline().decode(errors="replace")
            start = f.tell()
            size = f.seek(0, 2)
            f.seek(max(start, size - TAIL))
            lines = f.read().decode(errors="replace").split("\n")
    except OSError:
        return Progress()
    if len(lines) < 2:
        return Progress()
    columns, row = cells(header.strip()), dict[str, str]()
    # Use the newest complete row: while the run rewrites metrics.csv to add a column, a row may be incomplete.
    for line in reversed(lines[:-1]):
        if len(values := cells(line)) == len(columns):
            row = dict(zip(columns, values, strict=True))
            break
    steps, updates = (int(x) if math.isfinite(x := number(row.get(name))) else 0 for name in ("env_steps", "updates"))
    return Progress(steps, number(row.get("score")), number(row.get("steps_per_s")), updates)


def updates_in(settings: Mapping[str, Any]) -> int:
    """The length of a run in updates, or 0 if the length is given in env steps. `settings` are the run's settings by
    full names."""
    updates = settings.get("gorila.updates")
    return updates if settings.get("cluster") == "gorila" and isinstance(updates, int) else 0
