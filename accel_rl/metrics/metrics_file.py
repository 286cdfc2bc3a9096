"""Reading of metrics.csv. The file is derived data: damage to it neither stops a run nor hides its other rows."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_rl.text.counts import counted


@dataclass(frozen=True)
class MetricsFile:
    """The columns and the rows of a metrics.csv as text. `lost` is the number of lines that are no rows."""

    columns: list[str]
    rows: list[dict[str, str]]
    lost: int = 0

    def damage(self, names: Sequence[str]) -> str:
        """Lines that are no rows, and cells of the columns `names` that are no numbers, or "" if there are none."""
        cells = [row.get(name) for row in self.rows for name in names]
        unreadable = sum(bool(cell) and cell != "nan" and math.isnan(number(cell)) for cell in cells)
        parts = [counted(n, what) for n, what in ((self.lost, "line"), (unreadable, "cell")) if n]
        return f"{' and '.join(parts)} of metrics.csv cannot be read and count as empty" if parts else ""


def read_metrics(path: Path) -> MetricsFile:
    """Read line by line, so that a damaged byte costs at most its cell, its line, or for a line break two lines. A last
    line without a line break was cut short by a kill, and is not counted. Raises OSError."""
    header, *lines = path.read_bytes().decode(errors="replace").split("\n")[:-1] or [""]
    columns = cells(header)
    rows = [dict(zip(columns, row, strict=True)) for line in lines if len(row := cells(line)) == len(columns)]
    return MetricsFile(columns, rows, len(lines) - len(rows))


def cells(line: str) -> list[str]:
    """[] for a line that is no CSV."""
    try:
        return next(csv.reader([line.replace("\r", "")]), [])
    except csv.Error:
        return []


def number(cell: str | None) -> float:
    """NaN for an empty or unreadable cell."""
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan
