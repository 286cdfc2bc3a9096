"""Sinks are the destinations of rows of metrics. A sink receives every row in order. When a run is resumed, a sink
receives the number of the last valid row."""

import csv
import math
import os
from pathlib import Path
from typing import Protocol

Row = dict[str, float | int | str]

# Only the columns of time and energy differ between two equal runs.
WALL_CLOCK = ("sync_s", "lock_wait_s", "wall_s", "cpu_s", "joules", "steps_per_s")


class Sink(Protocol):
    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


def format_cell(value: float | int | str | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return format(value, ".9g") if isinstance(value, float) else str(value)


class CsvSink:
    """The sink of metrics.csv writes a header, then the rows. Each row of metrics.csv is flushed immediately. A new
    column rewrites metrics.csv atomically."""

    def __init__(self, path: Path, rows: int | None = None):
        """`rows` is the number of rows of an existing file that are kept. Later rows of the file will be written
        again."""
        self.path = path
        self._columns: list[str] = []
        self.last: dict[str, str] = {}
        self.rows = 0
        if path.exists():
            with open(path, newline="") as f:
                # A row without a newline was cut short by a kill, and is not counted.
                reader = csv.DictReader(line for line in f if line.endswith("\n"))
                kept = [r for r in reader if None not in r.values()]
                self._columns = list(reader.fieldnames or [])
            kept = kept if rows is None else kept[:rows]
            self.rows, self.last = len(kept), (kept[-1] if kept else {})
            self._rewrite(kept)
        self._file = open(path, "a", newline="")  # noqa: SIM115

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        temporary = self.path.with_name("." + self.path.name + ".tmp")
        with open(temporary, "w", newline="") as f:
            if self._columns:
                writer = csv.DictWriter(f, self._columns, restval="", lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, self.path)

    def write(self, row: Row) -> None:
        cells = {k: format_cell(v) for k, v in row.items()}
        if new := [k for k in cells if k not in self._columns]:
            self._file.close()
            with open(self.path, newline="") as f:
                rows = list(csv.DictReader(f))
            # Columns of wall time stay last.
            names = [*self._columns, *new]
            self._columns = [n for n in names if n not in WALL_CLOCK] + [n for n in names if n in WALL_CLOCK]
            self._rewrite(rows)
            self._file = open(self.path, "a", newline="")  # noqa: SIM115
        csv.DictWriter(self._file, self._columns, restval="", lineterminator="\n").writerow(cells)
        self._file.flush()
        self.rows, self.last = self.rows + 1, cells

    def sync(self) -> None:
        """Make all rows durable."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
