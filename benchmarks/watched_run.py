"""A training run that a benchmark starts, measures from its metrics.csv, and ends."""

import contextlib
import csv
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from accel_rl.system import child
from accel_rl.system.errors import ConfigError, RunError
from accel_rl.system.patience import Patience
from accel_rl.system.process import die_with_parent

END_S = 30.0


def rows(folder: Path) -> list[dict[str, str]]:
    """Read the rows of a run's metrics.csv since its first update."""
    try:
        with open(folder / "metrics.csv", newline="") as f:
            return [r for r in csv.DictReader(f) if None not in r.values() and float(r["updates"] or 0) > 0]
    except FileNotFoundError:
        return []


def watched_run(
    name: str,
    argv: list[str],
    seconds: float,
    patience_s: float,
    look: Callable[[psutil.Process], Any] = lambda _: None,
) -> tuple[list[dict[str, str]], list[Any]]:
    """Run `accel-rl train` until it has learned for `seconds` and has two rows.

    look: called with the run's process when learning has begun and at the end.
    Returns the rows since the first update, and what `look` returned. Raises the run's ConfigError or RunError."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder, log = Path(temporary) / "run", Path(temporary) / "stderr"
        with open(log, "wb") as err:  # a full pipe would block the run
            process = subprocess.Popen(
                child.command("accel_rl", "train", *argv, "--run-dir", str(folder)),
                env=child.environment(),
                stdout=subprocess.DEVNULL,
                stderr=err,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        looks = []
        start, learning = Patience(patience_s), Patience(seconds)
        try:
            while process.poll() is None:
                found = rows(folder)
                if found and not looks:
                    looks.append(look(psutil.Process(process.pid)))
                if (learning.over and len(found) > 1) or (start.over and len(found) < 2):
                    looks.append(look(psutil.Process(process.pid)))
                    break
                start.spend(lambda _: time.sleep(0.05))
                if found:
                    learning.spend(lambda _: time.sleep(0.05))
            found = rows(folder)
            if process.poll() is not None or len(found) < 2:
                lines = log.read_text().strip().splitlines()
                slow = f"its first two rounds of learning took more than {patience_s:g} s"
                error = ConfigError if process.poll() == 2 else RunError
                raise error(f"{name}: {lines[-1] if process.poll() and lines else slow}")
        finally:
            end(process)
    return found, looks


def end(process: subprocess.Popen) -> None:
    """Kill the run and its children, so that it writes no checkpoint."""
    if process.poll() is None:
        everything = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for p in everything:
            with contextlib.suppress(psutil.NoSuchProcess):
                p.kill()
        psutil.wait_procs(everything, timeout=END_S)
    process.wait()
