"""Reads metrics.csv. The file contains only derived data: if a part of the file is damaged, the run continues, and all
other rows are read."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_rl.text.counts import counted


@dataclass(frozen=True)
class MetricsFile:
    """The columns and the rows of a metrics.csv as text. `lost` is the number of unreadable lines."""

    columns: list[str]
    rows: list[dict[str, str]]
    lost: int = 0

    def damage(self, names: Sequence[str]) -> str:
        """A text with the numbers of unreadable lines, and of cells in the columns `names` that are not numbers, or ""
        if all lines and cells are readable."""
        cells = [row.get(name) for row in self.rows for name in names]
        unreadable = sum(bool(cell) and cell != "nan" and math.isnan(number(cell)) for cell in cells)
        parts = [counted(n, what) for n, what in ((self.lost, "line"), (unreadable, "cell")) if n]
        return f"{' and '.join(parts)} of metrics.csv cannot be read and count as empty" if parts else ""


def read_metrics(path: Path) -> MetricsFile:
    """Read a file line by line, so that a damaged byte destroys only its cell or its line, or two lines if the byte is
    a line break. A last line without a line break is ignored, because the process was killed while it wrote this line.
    Raises OSError."""
    header, *lines = path.read_bytes().decode(errors="replace").split("\n")[:-1] or [""]
    columns = cells(header)
    rows = [dict(zip(columns, row, strict=True)) for line in lines if len(row := cells(line)) == len(columns)]
    return MetricsFile(columns, rows, len(lines) - len(rows))


def cells(line: str) -> list[str]:
    """The cells of a line of CSV, or [] if the line is damaged."""
    try:
        return next(csv.reader([line.replace("\r", "")]), [])
    except csv.Error:
        return []


def number(cell: str | None) -> float:
    """The number in a cell, or NaN if the cell is empty or unreadable."""
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan
