"""Progress of a run, from the last row of its metrics.csv."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

TAIL = 8_192  # bytes, more than one row


@dataclass(frozen=True)
class Progress:
    """Progress of a run. score: NaN before the first finished episode."""

    env_steps: int = 0
    score: float = math.nan
    steps_per_s: float = math.nan
    updates: int = 0


def read_progress(run: Path) -> Progress:
    """Read the progress from a run's folder; zeros before the first complete row."""
    try:
        with open(run / "metrics.csv", "rb") as f:
            header = f.readline().decode()
            start = f.tell()
            size = f.seek(0, 2)
            f.seek(max(start, size - TAIL))
            lines = f.read().decode().split("\n")
    except OSError:
        return Progress()
    if len(lines) < 2:
        return Progress()
    row = dict(zip(next(csv.reader([header.strip()])), next(csv.reader([lines[-2]])), strict=False))
    try:
        return Progress(
            int(row["env_steps"]),
            _number(row.get("score")),
            _number(row.get("steps_per_s")),
            int(row.get("updates") or 0),
        )
    except (KeyError, ValueError):
        return Progress()  # the file is just being rewritten with a new column


def _number(text: str | None) -> float:
    return float(text) if text else math.nan
