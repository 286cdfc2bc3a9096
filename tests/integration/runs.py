"""Functions that start accel-rl in new processes as a user does, and compare the files of runs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psutil

from tests.chaos.run_files import rows
from tests.integration import warm


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "accel_rl", *map(str, args)]


def start(*args: object, module: str = "accel_rl", **kwargs: Any) -> warm.Forked:
    """Start accel-rl, or the Python module `module`, in a fork of a process that has imported torch."""
    return warm.Forked(module, [str(arg) for arg in args], **kwargs)


def run_until(rows: int, number: signal.Signals, *args: object) -> subprocess.CompletedProcess:
    """Run accel-rl, and send it the signal `number` when metrics.csv has `rows` rows."""
    words = [str(word) for word in (rows, int(number), *args)]
    return warm.run("tests.integration.signal_at_row", words, 280)


def run(
    *args: object, module: str = "accel_rl", timeout_s: float = 280, cwd: Any = None, env: Any = None
) -> subprocess.CompletedProcess:
    """Run accel-rl, or the Python module `module`, to its end: in a fork, or in a new interpreter if the run uses the
    simulated GPU."""
    if "simulated_device" in (os.environ if env is None else env).get("PYTHONPATH", ""):
        return subprocess.run(command(*args), capture_output=True, text=True, timeout=timeout_s, cwd=cwd, env=env)
    return warm.run(module, [str(arg) for arg in args], timeout_s, cwd=cwd, env=env)


def checkpoint_bytes(run_dir: Path, env_steps: int | None = None) -> dict[str, bytes]:
    """Return the files of the newest checkpoint, or of the checkpoint at `env_steps`, without the times in the
    manifest."""
    folders = sorted((run_dir / "checkpoints").iterdir())
    folder = folders[-1] if env_steps is None else run_dir / "checkpoints" / f"{env_steps:012d}"
    files = {p.name: p.read_bytes() for p in sorted(folder.iterdir())}
    manifest = json.loads(files["MANIFEST.json"])
    assert manifest.pop("time")["wall_s"] > 0 and manifest.pop("checksum")
    return {**files, "MANIFEST.json": json.dumps(manifest).encode()}


def resumed_equals(folder: Path, *args: object) -> bool:
    """Whether a run of 512 env steps, resumed to 1,024, has the same rows and events as an uninterrupted run.

    The arguments `args` are those of `accel-rl`, without --env-steps and --run-dir.
    """
    for name, steps in (("whole", 1_024), ("cut", 512)):
        done = run(*args, "--env-steps", steps, "--run-dir", folder / name)
        assert done.returncode == 0, done.stderr
    done = run("resume", folder / "cut", "--env-steps", 1_024, "--trust")
    assert done.returncode == 0, done.stderr
    return not difference(folder / "whole", folder / "cut")


def difference(a: Path, b: Path) -> list[str]:
    """Return a list of the differences between the rows and events of two runs."""
    pairs = list(zip_longest(rows(a), rows(b), fillvalue={}))
    found = [
        f"row {i}: " + ", ".join(f"{k} {x.get(k)} | {y.get(k)}" for k in sorted({*x, *y}) if x.get(k) != y.get(k))
        for i, (x, y) in enumerate(pairs)
        if x != y
    ]
    logs = [run_dir / "events.log" for run_dir in (a, b) if found]
    return found + [f"{log}: {log.read_text() if log.exists() else 'nothing'}" for log in logs]


def assert_equal_runs(a: Path, b: Path) -> None:
    assert not (different := difference(a, b)), "\n".join(different)
    assert checkpoint_bytes(a) == checkpoint_bytes(b)
    names = sorted(p.name for p in (a / "evaluations").iterdir())
    assert names == sorted(p.name for p in (b / "evaluations").iterdir())
    for name in names:
        assert (a / "evaluations" / name).read_bytes() == (b / "evaluations" / name).read_bytes()


def ranks_of(pid):
    """Return the processes of the ranks of a run, ordered by rank."""
    found = {}
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.Error):  # an ended process
            if "accel_rl.ranks.rank" in (words := child.cmdline()):
                found[json.loads(words[-1])["rank"]] = child
    return [found[rank] for rank in sorted(found)]


def wait_for(condition, timeout_s: float = 120.0, what: str = "condition") -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
        time.sleep(0.02)


def progressed(run_dir: Path, n_rows: int) -> bool:
    file = run_dir / "metrics.csv"
    return file.exists() and len(file.read_text().splitlines()) > n_rows


def kill(process: warm.Forked | psutil.Process, number: signal.Signals = signal.SIGKILL) -> None:
    process.send_signal(number)


def workers(pid: int) -> list[psutil.Process]:
    alive = [c for c in psutil.Process(pid).children() if c.status() != psutil.STATUS_ZOMBIE]
    return [c for c in alive if "accel_rl.samplers.workers.worker" in c.cmdline()]
