"""Tables with the same text in HTML and CSV."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Table:
    """A table. name: name of its CSV file."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def write(self, folder: Path) -> Path:
        file = folder / f"{self.name}.csv"
        with open(file, "w", newline="") as f:
            writer = csv.writer(f, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(self.rows)
        return file


def number(value: float | None, digits: int | None = None) -> str:
    """Format a number: the given number of decimals, else at most two; empty for NaN."""
    if value is None or math.isnan(value):
        return ""
    if digits is not None:
        return f"{value:.{digits}f}"
    return f"{value:.2f}".rstrip("0").rstrip(".")


Pair = tuple[str, str]
"""A pair of cells: the run's and the paper's."""


def paper_table(
    name: str, title: str, head: str, columns: Sequence[str], rows: Mapping[str, Sequence[Pair]], note: str
) -> Table:
    """Build a table in a paper's layout: right of each own cell is the paper's. rows: {label: a pair per column}."""
    doubled = [c for column in columns for c in (column, f"{column} (paper)")]
    return Table(name, title, [head, *doubled], [[r, *(c for p in rows[r] for c in p)] for r in rows], note)
