"""Tables with the same text in HTML and CSV."""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_rl.results.run import Run
from accel_rl.results.run_settings import Settings


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


MARK = "*"
"""Follows an own number of runs that differ from the paper's settings."""

Differences = Callable[[Settings], list[str]]
"""The settings in which a run of these settings differs from those of its published number."""


@dataclass(frozen=True)
class Alike:
    """Runs beside one published number: all with its settings, or none. mark: "" or MARK."""

    runs: Sequence[Run]
    mark: str


def alike(runs: Sequence[Run], differences: Differences) -> Alike:
    """Return the runs with the settings of the published number; if there are none, all of them, marked."""
    same = [r for r in runs if not differences(r.settings)]
    return Alike(same, "") if same else Alike(runs, MARK)


def marked(groups: Iterable[Alike], differences: Differences) -> str:
    """Return the sentences for a table's note about its marked numbers; "" if there are none."""
    return sentence([r for group in groups if group.mark for r in group.runs], differences)


def sentence(runs: Iterable[Run], differences: Differences, head: str = f"{MARK} differs from the paper") -> str:
    """Return the differences of runs by setting, for a note; "" if there are none."""
    texts = {run.setting: ", ".join(found) for run in runs if (found := differences(run.settings))}
    return f" {head}: {'; '.join(f'{label}: {text}' for label, text in texts.items())}." if texts else ""
