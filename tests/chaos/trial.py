"""A trial is a run with a fault, after which invariants must hold."""

import csv
import hashlib
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from accel_rl.metrics.sinks import WALL_CLOCK
from tests.chaos.modes import ENV_STEPS, Mode

LIMIT_S = 150.0
"""A command hangs if, for LIMIT_S seconds, it has neither ended nor added a row to metrics.csv."""
MARK = "ACCEL_RL_CHAOS"
"""Environment variable of all processes of a trial."""


class Violation(Exception):
    """`Violation` reports an invariant that does not hold. `kind` is "lost", "hung" or "wrong"."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Trial:
    """A `Trial` starts the commands of one run in a separate folder, and checks the run's files."""

    def __init__(self, mode: Mode, folder: Path, rng: random.Random, reference: Path | None = None) -> None:
        """`reference` is the folder of an undisturbed run of the same mode."""
        self.mode, self.folder, self.rng = mode, folder, rng
        self.run = folder / "run"
        self.reference = reference
        self.same = mode.exact and reference is not None
        """Whether the final parameters and rows must equal those of the undisturbed run."""
        self.whole_rows = True
        """Whether metrics.csv must have all rows."""
        self.tracebacks = False
        """Whether the output may have a traceback, for example of an environment's exception."""
        self.environment: dict[str, str] = {}
        """Further environment variables of all commands."""
        self.commands: list[str] = []
        self.told: list[str] = []
        """A description of the fault, for the output."""
        self._outside = folder / "outside"
        self._outside.mkdir(parents=True)
        for i in range(3):
            (self._outside / f"rows-{i:016x}.safetensors").write_text("a file of the user")
        self._before = digest(self._outside)
        self._names = _names()
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"

    # Commands

    def start(self, *arguments: str, wrap: Sequence[str] = (), **options: Any) -> subprocess.Popen:
        """Start accel-rl with arguments, as a child of the command `wrap`. The output goes to a file of the trial."""
        command = [*wrap, sys.executable, "-m", "accel_rl", *arguments]
        self.commands.append(" ".join(command))
        output = self.folder / f"output-{len(self.commands)}.txt"
        variables = {**os.environ, MARK: self.mark, **self.environment}
        with open(output, "wb") as file:
            options = {"stdout": file, "stderr": file, "start_new_session": True, **options}
            return subprocess.Popen(command, env=variables, **options)

    def train(self, *more: str, **options: Any) -> subprocess.Popen:
        """Start the training run."""
        return self.start(*self.mode.train(self.run, *more), **options)

    def resume(self, *more: str, **options: Any) -> subprocess.Popen:
        """Resume the run."""
        return self.start("resume", str(self.run), "--trust", *more, **options)

    def wait(self, process: subprocess.Popen, allowed: Sequence[int] | None = None) -> int:
        """Wait for the end of a command, and return its exit code. An exit code outside `allowed` is a Violation."""
        rows = self.n_rows()
        while True:
            try:
                code = process.wait(LIMIT_S)
                break
            except subprocess.TimeoutExpired:
                if self.n_rows() <= rows:
                    raise Violation("hung", f"no end within {LIMIT_S:g} s: {self.commands[-1]}") from None
                rows = self.n_rows()
        if allowed is not None and code not in allowed:
            raise Violation("wrong", f"exit code {code}, not {' or '.join(map(str, allowed))}: {self.last_line()}")
        return code

    def until_row(self, process: subprocess.Popen, row: int, delay_s: float = 0.0) -> bool:
        """Wait until metrics.csv has a number of rows, and then `delay_s` seconds. Return False if the run ended."""
        rows, deadline = -1, math.inf
        while (n := self.n_rows()) < row:
            if n > rows:
                rows, deadline = n, time.monotonic() + LIMIT_S
            if process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise Violation("hung", f"{self.n_rows()} rows, and no further one within {LIMIT_S:g} s")
            time.sleep(0.002)
        time.sleep(delay_s)
        return process.poll() is None

    def processes(self, process: subprocess.Popen, name: str = "") -> list[psutil.Process]:
        """Return the run's processes below `process` whose command line contains `name`."""
        try:
            children = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child for child in children if name in _command_line(child)]

    # Files

    def n_rows(self) -> int:
        """Return the number of complete rows of metrics.csv."""
        try:
            return max(0, (self.run / "metrics.csv").read_bytes().count(b"\n") - 1)
        except OSError:
            return 0

    def output(self) -> str:
        """Return the output of all commands."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("output-*.txt")))

    def last_line(self) -> str:
        """Return the last line of the newest command's output."""
        lines = (self.folder / f"output-{len(self.commands)}.txt").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

    def checkpoints(self) -> list[Path]:
        """Return the run's complete checkpoints, from the oldest to the newest."""
        return sorted(p for p in (self.run / "checkpoints").glob("[0-9]*") if (p / "MANIFEST.json").exists())

    # Invariants

    def finish(self) -> None:
        """Resume the run to its end, and check all invariants."""
        for _ in range(3):  # A run that was ended again, such as by a limit, is resumed again.
            if not (self.run / "config.json").exists():
                break
            finished = any(int(c.name) >= ENV_STEPS for c in self.checkpoints()[-1:])
            if finished or self.wait(self.resume()) == 0:
                self.check()
                return
        # A run that was ended before its first checkpoint has nothing to resume.
        if self.checkpoints():
            raise Violation("lost", f"{self.checkpoints()[-1].name} cannot be resumed: {self.last_line()}")
        self.told.append("before the first checkpoint")
        self.check_surroundings()

    def check(self) -> None:
        """Check a run that has ended with exit code 0."""
        steps = [int(row["env_steps"]) for row in rows(self.run)]
        if steps != sorted(set(steps)):
            raise Violation("wrong", f"the rows of metrics.csv are not ascending: {steps}")
        # A run that lost parts of rollouts ends with a whole rollout.
        if not steps or steps[-1] < ENV_STEPS or (self.same and steps[-1] > ENV_STEPS):
            raise Violation("lost", f"metrics.csv ends at {steps[-1] if steps else 0} of {ENV_STEPS} env steps")
        if self.same:
            assert self.reference is not None
            if self.whole_rows and (line := _difference(rows(self.reference), rows(self.run))):
                raise Violation("lost", line)
            if _parameters(self.run) != _parameters(self.reference):
                raise Violation("lost", "the final checkpoint differs from that of the undisturbed run")
        self.check_surroundings()

    def check_surroundings(self) -> None:
        """Check that no process and no name in /dev/shm remains, no file outside the run has changed, and no traceback
        was printed."""
        deadline = time.monotonic() + 10
        while left := [*self._left(), *self._left_in_memory()]:
            if time.monotonic() > deadline:
                raise Violation("wrong", f"left behind: {', '.join(left)}")
            time.sleep(0.05)
        if digest(self._outside) != self._before:
            raise Violation("lost", "files outside the run folder have changed")
        if not self.tracebacks and "Traceback (most recent call last)" in self.output():
            raise Violation("wrong", "a traceback was printed")

    def clean(self) -> None:
        """Kill the trial's remaining processes."""
        for process in psutil.process_iter():
            if self._marked(process):
                process.kill()

    def _left(self) -> Iterator[str]:
        for process in psutil.process_iter():
            if self._marked(process):
                yield f"{process.pid} {_command_line(process)[-80:]}"

    def _left_in_memory(self) -> Iterator[str]:
        """Yield the new names in /dev/shm that no process of another program maps."""
        if new := _names() - self._names:
            maps = "".join(_text(path) for path in Path("/proc").glob("[0-9]*/maps"))
            yield from (f"/dev/shm/{name}" for name in sorted(new) if f"/dev/shm/{name}" not in maps)

    def _marked(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark
        except psutil.Error:
            return False


Fault = Callable[[Trial], None]


def signal_all(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may have ended."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def rows(run: Path) -> list[dict[str, str]]:
    """Return the rows of metrics.csv without the columns of elapsed time."""
    with open(run / "metrics.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k not in WALL_CLOCK} for row in csv.DictReader(file)]


def digest(folder: Path) -> str:
    """Return a digest of the names and contents of a folder's files."""
    result = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        result.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            result.update(path.read_bytes())
    return result.hexdigest()


def _difference(expected: list[dict[str, str]], resumed: list[dict[str, str]]) -> str:
    """Return a description of the first difference between the rows of two runs, or "" if they are equal."""
    for a, b in zip(expected, resumed, strict=False):
        if a != b:
            name = next(k for k in {**a, **b} if a.get(k) != b.get(k))
            return f"row {a['env_steps']}: {name} is {b.get(name)}, undisturbed {a.get(name)}"
    return "" if len(expected) == len(resumed) else f"{len(resumed)} of {len(expected)} rows"


def _names() -> set[str]:
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _parameters(run: Path) -> bytes:
    return (run / "checkpoints" / f"{ENV_STEPS:012d}" / "state.safetensors").read_bytes()


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
