"""Sinks are the destinations of rows of metrics. A sink receives every row in order."""

import contextlib
import csv
import io
import logging
import math
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from accel_rl.files.durable_files import open_in_place, write_durably
from accel_rl.metrics.metrics_file import read_metrics
from accel_rl.metrics.nested import flat
from accel_rl.metrics.tags import tag
from accel_rl.text.errors import ConfigError, RunError

logger = logging.getLogger(__name__)

Row = dict[str, float | int | str]

# Columns that depend on time or energy; two runs with the same settings and seed may differ only in these columns.
WALL_CLOCK = ("sync_s", "lock_wait_s", "wall_s", "paused_s", "cpu_s", "joules", "gpu_joules", "steps_per_s")


class Sink:
    """A destination of metrics and events. A subclass overrides the methods that it needs. A user's sinks are called
    only on rank 0."""

    @classmethod
    def check_settings(cls, config: Any) -> None:
        """Raise ConfigError if the sink cannot work. `check_settings` is called before the run's folder is created.
        `config` is the `TrainConfig` of the run."""

    def open(self, settings: dict[str, Any], folder: Path, env_steps: int) -> None:
        """`open` is called once in each process of the run, before the first row. `settings` are those of config.json.
        `folder` is the folder of the run. A resumed run begins at `env_steps`, and writes all later rows again."""

    def write(self, row: Row) -> None:
        """`write` is called with each row of metrics.csv, a map from column names to values, which may be NaN."""

    def event(self, line: str) -> None:
        """`event` is called with each line of events.log, without the time at the line's beginning."""

    def close(self) -> None:
        """`close` is called once, at the end of the run."""


def format_cell(value: float | int | str | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    # A row is one line, so that a damaged quotation mark destroys only one row.
    return format(value, ".9g") if isinstance(value, float) else " ".join(str(value).splitlines())


class CsvSink(Sink):
    """The sink of metrics.csv writes a header, then the rows. Each row is written immediately, or, if the disk is full,
    as soon as the disk has free space. If a row has a new column, metrics.csv is rewritten atomically."""

    def __init__(self, path: Path, rows: int | None = None):
        """`rows` is the number of rows of an existing file that are kept. Later rows of the file are removed, because
        the resumed run writes them again."""
        self.path = path
        self._columns: list[str] = []
        self._unwritten: list[dict[str, str]] = []
        self._is_full = False
        self.rows = 0
        if path.exists():
            table = read_metrics(path)
            kept = table.rows if rows is None else table.rows[:rows]
            self.rows, self._columns = len(kept), table.columns
            self._rewrite(kept, self._columns)
        self._file: FileIO | None = self._opened()

    def write(self, row: Row) -> None:
        cells = {k: format_cell(v) for k, v in row.items()}
        self._unwritten.append(cells)
        self.rows += 1
        try:
            self._write_all()
            self._is_full = False
        except OSError as error:
            if not self._is_full:
                logger.warning(f"{self.path} cannot be written ({error.strerror}): its rows stay in memory")
            self._is_full = True

    def sync(self) -> None:
        """Raises RunError if the disk is full."""
        try:
            os.fsync(self._write_all().fileno())
        except OSError as error:
            raise RunError(f"could not write {self.path}: {error.strerror}") from error

    def close(self) -> None:
        # Errors are ignored, because the last checkpoint has already written all rows or raised the error.
        with contextlib.suppress(OSError):
            self._write_all()
        if self._file is not None:
            self._file.close()

    def _write_all(self) -> FileIO:
        """Write all unwritten rows, and return the file. If an OSError is raised, metrics.csv contains its old rows."""
        names = dict.fromkeys(name for row in self._unwritten for name in row)
        if new := [name for name in names if name not in self._columns]:
            rows = read_metrics(self.path).rows
            # The columns of wall time remain the last columns.
            names = dict.fromkeys([*self._columns, *new])
            columns = [n for n in names if n not in WALL_CLOCK] + [n for n in names if n in WALL_CLOCK]
            self._rewrite(rows, columns)
            self._columns = columns
            replaced, self._file = self._file, None
            if replaced is not None:
                replaced.close()
        # metrics.csv is reopened if an earlier call replaced the file and then failed.
        file = self._file = self._file or self._opened()
        lines = io.StringIO(newline="")
        csv.DictWriter(lines, self._columns, restval="", lineterminator="\n").writerows(self._unwritten)
        size = os.fstat(file.fileno()).st_size
        data = lines.getvalue().encode()
        try:
            while data:
                data = data[file.write(data) :]
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise
        self._unwritten.clear()
        return file

    def _opened(self) -> FileIO:
        return FileIO(open_in_place(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a")

    def _rewrite(self, rows: list[dict[str, str]], columns: list[str]) -> None:
        text = io.StringIO(newline="")
        if columns:
            writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        write_durably(self.path, text.getvalue().encode())


def check_tensorboard() -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError as e:
        raise ConfigError("--log.tensorboard needs the extra tensorboard: pip install 'accel_rl[tensorboard]'") from e


class TensorBoardSink(Sink):
    def __init__(self, folder: Path, env_steps: int):
        from torch.utils.tensorboard import SummaryWriter

        # purge_step hides rows after the checkpoint, since the resumed run writes them again.
        self._writer = SummaryWriter(str(folder), purge_step=env_steps + 1)

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        rows = "\n".join(f"|{name}|{value}|" for name, value in flat(settings))
        self._writer.add_text("hyperparameters", f"|setting|value|\n|-|-|\n{rows}")

    def write(self, row: Row) -> None:
        step = int(row["env_steps"])
        for name, value in row.items():
            if isinstance(value, int | float) and math.isfinite(value) and name != "env_steps":
                self._writer.add_scalar(tag(name), value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def tensorboard_sink(config: Any, folder: Path, env_steps: int) -> list[Sink]:
    if not config.log.tensorboard:
        return []
    sink = TensorBoardSink(folder / "tensorboard", env_steps)
    if not env_steps:
        sink.write_settings(config.to_dict())
    return [sink]
