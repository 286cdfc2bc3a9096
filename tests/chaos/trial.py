"""A trial is a small training run that a fault disturbs, and whose files and processes are checked afterwards."""

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.chaos import invariants, run_files
from tests.chaos.invariants import Violation
from tests.chaos.leftovers import MARK, Leftovers, command_line
from tests.chaos.modes import ENV_STEPS, ROWS, Mode

LIMIT_S = 150.0
"""A command hangs if, for LIMIT_S seconds, it has neither ended nor added a row to metrics.csv."""
FIRST_ROW = 3
"""Number of rows of metrics.csv after which a fault occurs: before, a run has no env steps to lose."""
STOP_LIMIT_S = 45.0
"""A stop request is ignored if the command has not ended after STOP_LIMIT_S seconds. A stopping run kills a worker that
does not answer within 5 s."""


class Trial:
    """Starts the accel-rl commands of one run in a separate folder, and checks the newest checkpoint whenever a command
    ends."""

    def __init__(self, mode: Mode, folder: Path, rng: random.Random, reference: Path | None = None) -> None:
        """The argument `reference` is the folder of an undisturbed run of the same mode."""
        self.mode, self.folder, self.rng = mode, folder, rng
        self.run = folder / "run"
        self.reference = reference
        self.same = mode.exact and reference is not None
        """Whether the run's final state and rows must equal those of the undisturbed run."""
        self.incomparable: set[str] = set()
        """Folders of the run that may differ from those of the undisturbed run, such as damaged ones."""
        self.whole_rows = True
        """Whether metrics.csv must have all rows of the undisturbed run."""
        self.progresses = True
        """Whether the newest checkpoint is checked when a command ends. False after the run's files were damaged."""
        self.tracebacks = False
        """Whether the output may have a traceback, for example of an environment's exception."""
        self.environment: dict[str, str] = {}
        """Further environment variables of all commands."""
        self.wrap: list[str] = []
        """Words put before each command: a program, such as strace, that runs the command."""
        self.commands: list[str] = []
        self.told: list[str] = []
        """Descriptions of the trial's faults, for the output."""
        self.acted = False
        """Whether a fault has hit a run that could lose something."""
        self.lost_steps = 0
        """The largest number of env steps that an ended process had made since the newest checkpoint."""
        self.leftovers = Leftovers(folder / "outside")
        self._resumed, self._from, self._table = 0, -1, 0

    # Commands

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen:
        """Start accel-rl with arguments, and write its output to a file in the trial's folder."""
        command = [*self.wrap, sys.executable, "-m", "accel_rl", *arguments]
        self.commands.append(" ".join(command))
        output = self.folder / f"output-{len(self.commands)}.txt"
        variables = {**os.environ, MARK: self.leftovers.mark, **self.environment}
        with open(output, "wb") as file:
            options = {"stdout": file, "stderr": file, "start_new_session": True, **options}
            return subprocess.Popen(command, env=variables, **options)

    def train(self, *more: str, **options: Any) -> subprocess.Popen:
        """Start the training run."""
        return self.start(*self.mode.train(self.run, *more), **options)

    def resume(self, *more: str, checkpoint: Path | None = None, **options: Any) -> subprocess.Popen:
        """Resume the run from its newest checkpoint, or from `checkpoint`."""
        self._resumed = len(self.resumes())
        self._from = run_files.newest(self.run) if checkpoint is None else int(checkpoint.name)
        self._table = _inode(self.run / "metrics.csv")
        chosen = [] if checkpoint is None else ["--checkpoint", str(checkpoint)]
        return self.start("resume", str(self.run), "--trust", *chosen, *more, **options)

    def resumes(self) -> list[int]:
        """Return the env steps at which the run was resumed, from events.log."""
        try:
            lines = (self.run / "events.log").read_text(errors="replace").splitlines()
        except OSError:
            return []
        return [int(line.split(" resumed at ")[1].split()[0]) for line in lines if " resumed at " in line]

    def wait(self, process: subprocess.Popen, allowed: Sequence[int] | None = None, limit_s: float = LIMIT_S) -> int:
        """Wait for the end of a command, check the newest checkpoint, and return the exit code. Raises Violation if the
        exit code is not in `allowed`."""
        rows = self.n_rows()
        while True:
            try:
                code = process.wait(limit_s)
                break
            except subprocess.TimeoutExpired:
                if self.n_rows() <= rows or limit_s < LIMIT_S:
                    raise Violation("hung", f"no end within {limit_s:g} s: {self.commands[-1]}") from None
                rows = self.n_rows()
        if allowed is not None and code not in allowed:
            raise Violation("wrong", f"exit code {code}, not {' or '.join(map(str, allowed))}: {self.last_line()}")
        self.check_progress(code)
        return code

    def check_progress(self, code: int = 0, is_stop: bool = False) -> None:
        """Check, after the end of a command, that no checkpoint is missing."""
        if not self.progresses:
            return
        resumed = self.resumes()[self._resumed :]
        if self._from >= 0 and resumed and resumed[0] != self._from:
            raise Violation("lost", f"resumed at {resumed[0]} env steps, with a checkpoint at {self._from}")
        self.lost_steps = max(self.lost_steps, invariants.check_progress(self, is_stop))
        if code and not self.checkpoints():
            self.missed("before the first checkpoint")

    def stop(self, process: subprocess.Popen, number: signal.Signals, group: bool = False, times: int = 1) -> None:
        """Send a signal that requests a stop. The run must save a checkpoint at the last row of metrics.csv."""
        # SaveBest selects networks at checkpoints, of which a stopped run has one more than the undisturbed run.
        self.incomparable.add("best-training")
        self.hit(f"{number.name} to the {'group' if group else 'main process'}")
        for i in range(times):
            time.sleep(i * self.rng.uniform(0, 0.1))
            (os.killpg if group else os.kill)(process.pid, number)
        # The exit code is -number (of the signal) before the run has installed signal handlers, 0 after the run's end.
        code = self.wait(process, (0, 128 + number, -number), STOP_LIMIT_S)
        if code == 0:
            self.missed("too late")
        saves = code == 128 + number and self.n_rows() and not (number == signal.SIGINT and times > 1)
        self.check_progress(is_stop=bool(saves))

    def hit(self, text: str) -> None:
        """Record the description of a fault that has hit the run."""
        self.told.append(text)
        self.acted = True

    def missed(self, why: str) -> None:
        """Record why the faults so far cannot have lost anything, such as "too late"."""
        self.told.append(why)
        self.acted = False

    # Moments

    def moment(self, process: subprocess.Popen) -> bool:
        """Wait until metrics.csv has a random number of rows, and then for at most 0.3 s. Return False if the run ends
        during the wait."""
        if self._from >= 0 and not self.until_resumed(process):
            return False
        first = min(max(FIRST_ROW, self.n_rows()), ROWS - 1)
        row, delay_s = self.rng.randrange(first, ROWS), self.rng.choice((0.0, self.rng.uniform(0, 0.3)))
        running = self.until_row(process, row, delay_s)
        self.told.append(f"row {row} + {delay_s:.2f} s" + ("" if running else ", too late"))
        return running

    def until_resumed(self, process: subprocess.Popen) -> bool:
        """Wait until a resumed run has logged the resume, and removed the rows of metrics.csv after the checkpoint.

        Return False if the run ended.
        """
        table, old = self.run / "metrics.csv", (0, self._table)
        return self._until(process, lambda: len(self.resumes()) > self._resumed and _inode(table) not in old)

    def until_row(self, process: subprocess.Popen, row: int, delay_s: float = 0.0) -> bool:
        """Wait until metrics.csv has `row` rows, and then `delay_s` seconds. Return False if the run ended."""
        if not self._until(process, lambda: self.n_rows() >= row):
            return False
        time.sleep(delay_s)
        return process.poll() is None

    def _until(self, process: subprocess.Popen, condition: Callable[[], bool]) -> bool:
        rows, deadline = -1, math.inf
        while not condition():
            if (n := self.n_rows()) > rows:
                rows, deadline = n, time.monotonic() + LIMIT_S
            if process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise Violation("hung", f"{self.n_rows()} rows, and no further one within {LIMIT_S:g} s")
            time.sleep(0.002)
        return True

    def processes(self, process: subprocess.Popen, name: str = "") -> list[psutil.Process]:
        """Return the run's processes below `process` whose command line contains `name`."""
        try:
            children = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child for child in children if name in command_line(child)]

    # Files

    def n_rows(self) -> int:
        """Return the number of complete rows of metrics.csv."""
        try:
            return max(0, (self.run / "metrics.csv").read_bytes().count(b"\n") - 1)
        except OSError:
            return 0

    def output(self) -> str:
        """Return the output of all commands of the trial."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("output-*.txt")))

    def last_line(self) -> str:
        """Return the last line of the newest command's output."""
        lines = (self.folder / f"output-{len(self.commands)}.txt").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

    def checkpoints(self) -> list[Path]:
        """Return the run's complete checkpoints, from the oldest to the newest."""
        return run_files.checkpoints(self.run)

    # The end

    def finish(self) -> None:
        """Resume the run to its end, and check all invariants."""
        for _ in range(3):  # A lasting fault, such as a memory limit, may end the run again.
            if not (self.run / "config.json").exists():
                break
            if run_files.newest(self.run) >= ENV_STEPS or self.wait(self.resume()) == 0:
                invariants.check_end(self)
                return
        # A run without a checkpoint has nothing to resume.
        if self.checkpoints():
            raise Violation("lost", f"{self.checkpoints()[-1].name} cannot be resumed: {self.last_line()}")
        invariants.check_surroundings(self)

    def finish_undisturbed(self, process: subprocess.Popen) -> None:
        """Wait for the end of a run whose fault must not end it, and check all invariants."""
        self.wait(process, (0,))
        invariants.check_end(self)


Fault = Callable[[Trial], None]


def signal_all(processes: Sequence[psutil.Process], number: signal.Signals) -> bool:
    """Send a signal to processes, some of which may have ended. Return whether a process has received the signal."""
    received = False
    for process in processes:
        try:
            process.send_signal(number)
            received = True
        except psutil.NoSuchProcess:
            continue
    return received


def _inode(path: Path) -> int:
    """Return the inode of a file, which changes if the file is replaced, or 0 without a file."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0
