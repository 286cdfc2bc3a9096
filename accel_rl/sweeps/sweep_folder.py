"""A sweep's folder: its plan, the state of its runs, and the lock of the sweep that is running.

sweep.json       the grid, the options of placement, and the resources that each run asks for and gets
state.json       each run: waiting, running, done, failed, pruned or stopped; attempts; exit code
NAME/            the folder of a run, as of `accel-rl train`, with its output in log.txt
"""

import csv
import fcntl
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.config.resolved import fill_in
from accel_rl.config.train import TrainConfig
from accel_rl.runners.run_folder import RunFolder
from accel_rl.sweeps.sweep_plan import Run
from accel_rl.system.errors import ConfigError

PRUNED = "pruned"
"""Status of a run that a search has ended early."""
LOCK_PATIENCE_S = 0.5  # the command `status` holds the lock for less than this time


@dataclass(frozen=True)
class Record:
    """The sweep's record of one run. `slot`: its GPUs or cores. Times are in seconds since the epoch."""

    status: str = "waiting"
    attempts: int = 0
    slot: str | None = None
    pid: int | None = None
    exit_code: int | None = None
    started: float | None = None
    ended: float | None = None


class SweepFolder:
    def __init__(self, path: Path):
        self.path = path
        self.records: dict[str, Record] = {}

    # -- contents ------------------------------------------------------------

    @property
    def plan(self) -> dict[str, Any]:
        """Read sweep.json. Raises ConfigError if the file does not exist."""
        try:
            return dict(json.loads((self.path / "sweep.json").read_text()))
        except FileNotFoundError as e:
            raise ConfigError(f"{self.path} holds no sweep (no sweep.json)") from e
        except (OSError, ValueError) as e:
            raise ConfigError(f"{self.path / 'sweep.json'} is not readable: {e}") from e

    @property
    def names(self) -> list[str]:
        return list(self.plan["runs"])

    def run(self, name: str) -> Path:
        return self.path / name

    def log(self, name: str) -> Path:
        return self.path / name / "log.txt"

    def config(self, name: str) -> TrainConfig:
        """Read the configuration that the run was started with."""
        return RunFolder.open(self.run(name))[1]

    def env_steps(self, name: str) -> int:
        """The run's length in env steps."""
        return self.config(name).env_steps

    def left(self) -> dict[str, TrainConfig]:
        """Return {name: configuration} of the unfinished runs."""
        configs = {name: self.config(name) for name in self.names}
        return {name: c for name, c in configs.items() if not self.finished(name, c.env_steps)}

    def finished(self, name: str, env_steps: int) -> bool:
        """Whether the run's last checkpoint exists, which is written after the last row.

        A run whose length is a number of updates is finished if the last row has this number.
        """
        steps = Checkpoints(self.run(name) / "checkpoints").steps()
        if not steps:
            return False
        config = self.config(name)
        if config.cluster == "gorila" and config.gorila.updates:
            last = read_progress(self.run(name))
            return last.updates >= config.gorila.updates and steps[-1] >= last.env_steps
        return steps[-1] >= env_steps

    # -- beginning ------------------------------------------------------------

    def check_new(self) -> None:
        """Raise ConfigError if a sweep cannot start in this folder."""
        self.check_free()
        self.check_unwritten()
        RunFolder.check_new(self.path)

    def check_unwritten(self) -> None:
        """Raise ConfigError if the folder holds a sweep."""
        if (self.path / "sweep.json").exists():
            raise ConfigError(
                f"{self.path} already holds a sweep; go on with it: accel-rl sweep --resume {self.path}, or "
                "choose another --out"
            )

    def check_free(self) -> None:
        """Raise ConfigError if a sweep, or a run of a killed sweep, is still running in this folder."""
        if (holder := self.holder()) is not None:
            who = f"a running sweep (process {holder})"
            if not psutil.pid_exists(holder):
                who = "runs of a sweep that was killed, which are about to stop"
            raise ConfigError(f"{self.path} is in use by {who}")

    def create(
        self, runs: Mapping[str, Run], labels: Mapping[str, Mapping[str, str]], placed: Mapping[str, Any]
    ) -> None:
        """Write the configuration of every run before any run starts, so that a killed sweep can be resumed.

        labels: labels of each run in its grid.
        """
        sizes = {name: self._begun(name, run) for name, run in runs.items()}
        named = {name: dict(labels[name]) for name in runs}
        self.write("sweep.json", {**placed, "created": time.time(), "runs": named, "sizes": sizes})

    def add(self, name: str, run: Run, labels: Mapping[str, str]) -> None:
        """Add a run to a sweep that has begun."""
        plan = self.plan
        sizes = {**plan["sizes"], name: self._begun(name, run)}
        self.write("sweep.json", {**plan, "runs": {**plan["runs"], name: dict(labels)}, "sizes": sizes})
        self.records[name] = Record()
        self._save()

    def _begun(self, name: str, run: Run) -> dict[str, Any]:
        """Write a run's configuration, and return its entry among the sizes of sweep.json."""
        path = self.run(name)
        RunFolder.create(path, replace(fill_in(run.config), run_dir=str(path)))
        return {"asks": {"gpus": run.needs.gpus, "cores": run.needs.cores}, "gets": asdict(run.size)}

    def load_records(self) -> dict[str, Record]:
        try:
            values = json.loads((self.path / "state.json").read_text())
        except (OSError, ValueError):
            values = {}
        self.records = {name: Record(**values.get(name, {})) for name in self.names}
        return self.records

    def begin(self, waiting: Sequence[str]) -> None:
        """Reset the records for a new or resumed sweep: the runs in `waiting` wait, all others have ended."""
        for name, record in self.load_records().items():
            ended = record.status if record.status in (PRUNED, "failed") else "done"
            status = "waiting" if name in waiting else ended
            self.records[name] = replace(record, status=status, attempts=0, slot=None, pid=None)
        self._save()

    def note(self, name: str, **changes: Any) -> None:
        """Change a run's record, on disk too."""
        self.records[name] = replace(self.records[name], **changes)
        self._save()

    def _save(self) -> None:
        self.write("state.json", {n: asdict(r) for n, r in self.records.items()})

    def write(self, name: str, value: Any) -> None:
        RunFolder(self.path).write_json(name, value)

    def event(self, line: str) -> None:
        RunFolder(self.path).event(line)

    # -- the lock ------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the folder. The sweep's runs inherit the descriptor; the kernel releases the lock when the last of these
        processes exits. Raises ConfigError if another process holds the lock."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = time.monotonic() + LOCK_PATIENCE_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        self.check_free()
                    time.sleep(0.05)
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            yield descriptor
        finally:
            os.close(descriptor)

    def holder(self) -> int | None:
        """Return the process id of the sweep that is running in this folder, or None."""
        try:
            descriptor = os.open(self.path / ".lock", os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            return int(os.read(descriptor, 32).split()[0] or 0)
        finally:
            os.close(descriptor)


TAIL = 8_192  # bytes read from the end of a file, more than one row has


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
        return Progress()  # The file is being rewritten with a new column.


def _number(text: str | None) -> float:
    return float(text) if text else math.nan
