"""Tables of a report. A table's text is the same in HTML and in CSV files."""

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accel_rl.results.run_settings import Settings
from accel_rl.results.trained_run import TrainedRun
from accel_rl.text.output import escaped


@dataclass(frozen=True)
class Table:
    """`name` is the name of the CSV file, without the suffix."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def without_empty(self, columns: Iterable[str]) -> "Table":
        """The table without columns in which all cells are empty, such as papers' scores for CartPole."""
        dropped = {i for i, name in enumerate(self.columns) if name in columns and not any(row[i] for row in self.rows)}
        head, *rows = ([x for i, x in enumerate(row) if i not in dropped] for row in (self.columns, *self.rows))
        return replace(self, columns=head, rows=rows)

    def write(self, folder: Path) -> Path:
        file = folder / f"{self.name}.csv"
        with open(file, "w", newline="") as f:
            writer = csv.writer(f, lineterminator="\n")
            writer.writerows([_cell(text) for text in row] for row in (self.columns, *self.rows))
        return file


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet program evaluates a cell as a formula if the cell begins with one of these characters."""
_NUMBER = re.compile(r"[-+]?(\d[\d,]*)?\.?\d*(e[-+]?\d+)?( ?[%*])*", re.ASCII)


def _cell(text: str) -> str:
    """Names of environments and settings come from the files of runs, so a text that could be a formula begins with an
    apostrophe, which spreadsheet programs do not display. Control characters are escaped, because the csv module does
    not quote a carriage return, which would begin a row."""
    mark = "'" if text.startswith(FORMULA) and not _NUMBER.fullmatch(text) else ""
    return escaped(mark + text)


def number(value: float | None, digits: int | None = None) -> str:
    """A number as a text, with the given number of decimals, or by default with at most two. NaN becomes an empty
    text."""
    if value is None or math.isnan(value):
        return ""
    if digits is not None:
        return f"{value:.{digits}f}"
    return f"{value:.2f}".rstrip("0").rstrip(".")


Pair = tuple[str, str]
"""A `Pair` contains the texts of two cells: the number measured in this project's runs, and the paper's number."""


def paper_table(
    name: str, title: str, head: str, columns: Sequence[str], rows: Mapping[str, Sequence[Pair]], note: str
) -> Table:
    """A table in a paper's layout, with the paper's number to the right of each measured number. `rows` maps a label to
    a pair of cells per column."""
    doubled = [c for column in columns for c in (column, f"{column} (paper)")]
    return Table(name, title, [head, *doubled], [[r, *(c for p in rows[r] for c in p)] for r in rows], note)


MARK = "*"
"""The mark `MARK` means that a number was measured with settings other than the paper's."""

Differences = Callable[[Settings], list[str]]
"""`Differences` is a function that returns the settings in which a run differs from the runs behind its published
number."""


@dataclass(frozen=True)
class Alike:
    """The runs that are compared with one published number. `mark` is "" if all these runs have the settings that are
    published with the number, and MARK if no run has these settings."""

    runs: Sequence[TrainedRun]
    mark: str


def alike(runs: Sequence[TrainedRun], differences: Differences) -> Alike:
    """Return only the runs that have the settings of the published number. If no run has the published settings, return
    all runs, with the mark MARK."""
    same = [r for r in runs if not differences(r.settings)]
    return Alike(same, "") if same else Alike(runs, MARK)


def marked(groups: Iterable[Alike], differences: Differences) -> str:
    """The sentences for a table's note about its marked numbers, or "" if the table has none."""
    return sentence([r for group in groups if group.mark for r in group.runs], differences)


def sentence(runs: Iterable[TrainedRun], differences: Differences, head: str = f"{MARK} differs from the paper") -> str:
    """A sentence for a note about the settings in which runs differ from the published settings, or "" if the runs do
    not differ."""
    texts = {run.setting: ", ".join(result) for run in runs if (result := differences(run.settings))}
    return f" {head}: {'; '.join(f'{label}: {text}' for label, text in texts.items())}." if texts else ""
