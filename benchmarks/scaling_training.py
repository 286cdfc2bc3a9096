"""Tables 2 and 3 of `benchmarks.scaling`: one training run, measured from its metrics.csv."""

import contextlib
import csv
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil

from accel_rl.system.errors import ConfigError, RunError
from accel_rl.system.patience import Patience
from accel_rl.system.process import die_with_parent
from benchmarks.scaling_settings import RUNS, STEPS, Options

REPLAY = 40_000  # ten times its content at the start; the speed of drawing does not depend on how full a replay is
END_S = 30.0
ENVS = {"a2c_ranks": 16, "ppo_ranks": 8}  # environments of a rank


def command(o: Options, experiment: str, ranks: int, is_async: bool, folder: Path) -> list[str]:
    flags: list[object] = ["--game", o.game, "--ranks", ranks]
    if experiment in ENVS:
        flags += ["--envs", ENVS[experiment] * ranks]
    if experiment == "ppo_ranks":
        flags += ["--horizon", 256 // ranks]
    if is_async:
        flags += ["--update", "async"]
    if o.gpus:
        flags += ["--gpus", ",".join(o.gpus.split(",")[:ranks])]
    if replays(experiment):  # rounds are long, so there is a row for each
        flags += ["--replay.size", max(REPLAY, 2 * o.fill), "--replay.start", o.fill, "--log.interval", 64]
    else:
        flags += ["--log.interval", 512]
    flags += ["--env-steps", STEPS, "--evaluation.interval", 0, "--checkpoint.interval", 0]
    flags += ["--decorrelation-steps", 30, "--run-dir", folder]
    return [sys.executable, "-m", "accel_rl", "train", f"experiments.stooke:{experiment}", *map(str, flags)]


def replays(experiment: str) -> bool:
    return experiment in [e for e, _ in RUNS[3].values()]


def rows(folder: Path) -> list[dict[str, str]]:
    """Read the rows of a run's metrics.csv since its first update."""
    try:
        with open(folder / "metrics.csv", newline="") as f:
            return [r for r in csv.DictReader(f) if None not in r.values() and float(r["updates"] or 0) > 0]
    except FileNotFoundError:
        return []


def watched(process: subprocess.Popen, folder: Path, seconds: float, patience_s: float) -> list[dict[str, str]]:
    """Wait for `seconds` of learning and for at least two rows; returns the rows. Gives up after patience_s."""
    start, learning = Patience(patience_s), Patience(seconds)
    while process.poll() is None:
        found = rows(folder)
        if (learning.over and len(found) > 1) or (start.over and len(found) < 2):
            break
        start.spend(lambda _: time.sleep(0.05))
        if found:
            learning.spend(lambda _: time.sleep(0.05))
    return rows(folder)


def train(o: Options, experiment: str, ranks: int, is_async: bool) -> dict[str, float]:
    """Train; returns env steps/s between the first and the last row, and shares of time.

    Raises the run's ConfigError or RunError."""
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "run", Path(folder) / "stderr"
        with open(log, "wb") as err:  # a full pipe would block the run
            process = subprocess.Popen(
                command(o, experiment, ranks, is_async, path),
                stdout=subprocess.DEVNULL,
                stderr=err,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        try:
            found = watched(process, path, o.seconds, o.patience)
            if process.poll() is not None or len(found) < 2:
                lines = log.read_text().strip().splitlines()
                slow = f"its first two rounds of learning took more than {o.patience:g} s"
                error = ConfigError if process.poll() == 2 else RunError
                raise error(f"{experiment} on {ranks} ranks: {lines[-1] if process.poll() and lines else slow}")
        finally:
            end(process)
    first, last = found[0], found[-1]
    wall = float(last["wall_s"]) - float(first["wall_s"])
    share = {
        name: (float(last.get(name) or 0) - float(first.get(name) or 0)) / wall for name in ("sync_s", "lock_wait_s")
    }
    return {"steps_per_s": (int(last["env_steps"]) - int(first["env_steps"])) / wall, **share}


def end(process: subprocess.Popen) -> None:
    """Kill the run and its children, so that it writes no checkpoint."""
    if process.poll() is None:
        everything = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for p in everything:
            with contextlib.suppress(psutil.NoSuchProcess):
                p.kill()
        psutil.wait_procs(everything, timeout=END_S)
    process.wait()
