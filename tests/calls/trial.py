"""A trial is a small run in which a system call fails. The disturbed run is resumed, and compared with an undisturbed
run."""

import ctypes
import errno
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from accel_rl.text.errors import ConfigError
from tests.chaos import run_files
from tests.integration import warm
from tests.preloaded import compiled

ENV_STEPS, SAVE_EVERY = 480, 160
_IN_PROCESS = "--engine in-process --torch-threads 1 --groups 1 --envs 8"
MODES = {
    "ppo": f"ppo {_IN_PROCESS} --horizon 10 --minibatch 80 --epochs 1",
    "dqn": f"dqn {_IN_PROCESS} --batch-size 8 --replay.size 300 --replay.start 80 --intensity 0.5",
    "workers": "ppo --workers 1 --torch-threads 1 --envs 8 --horizon 10 --minibatch 80 --epochs 1",
}
"""Maps each mode to the arguments of `accel-rl train`."""
_EVERYWHERE = (
    f"--env CartPole-v1 --seed 3 --env-steps {ENV_STEPS} --log.interval 80 --checkpoint.interval {SAVE_EVERY} "
    "--checkpoint.keep 2 --evaluation.interval 240 --evaluation.episodes 1 --evaluation.max-episode-steps 20 "
    "--decorrelation-steps 0"
)
HOW = ("plain", "done", "half", "short", "kill")
"""How a system call fails, in the order of shim.c.

plain: an error without effect; done: an error after its effect; half: an error after half of its bytes; short: half
of the bytes without an error; kill: the process is killed.
"""
FAULTS = {
    "open": ("EIO", "EMFILE", "EINTR"), "read": ("EIO", "EINTR", "short"), "close": ("EIO done",),
    "write": ("ENOSPC", "EINTR", "EIO half", "short", "kill"), "stat": ("EIO", "EPERM"), "fsync": ("EIO", "kill"),
    "rename": ("EIO", "EIO done", "EPERM", "kill"), "mkdir": ("ENOSPC", "EPERM"), "unlink": ("EIO", "EPERM"),
    "link": ("EPERM", "EIO done"), "flock": ("ENOLCK", "EINTR", "EAGAIN"), "truncate": ("EIO", "ENOSPC"),
    "opendir": ("EIO", "EMFILE"), "mmap": ("ENOMEM",), "thread": ("EAGAIN",), "fork": ("EAGAIN",),
    **dict.fromkeys(("memfd", "eventfd", "socketpair", "pipe"), ("EMFILE",)),
}  # fmt: skip
"""Maps each kind of system call to the faults of its trials."""
# An interrupted call is repeated by Python, and for ever if each repetition is interrupted.
_ONCE = ("EINTR", "kill")
LIMIT_S = 60.0


@dataclass(frozen=True)
class Fault:
    """A fault of a run of `mode`: its n-th system call of the kind `call` fails, with `for_ever` also all later
    calls."""

    mode: str
    call: str
    kind: str
    """The name of an error, an entry of `HOW`, or both."""
    for_ever: bool
    n: int

    def __str__(self) -> str:
        return f"{self.mode}/{self.call}/{self.kind}/{'ever' if self.for_ever else 'once'}/{self.n}"

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Parse the text that `str(fault)` returns. Raises ConfigError."""
        mode, call, kind, times, n = (*text.split("/"), "", "", "", "")[:5]
        if mode not in MODES or kind not in FAULTS.get(call, ()) or times not in ("once", "ever") or not n.isdigit():
            raise ConfigError(f"--only {text}: must be MODE/CALL/FAULT/once|ever/N, such as ppo/rename/EIO done/once/3")
        return cls(mode, call, kind, times == "ever", int(n))

    @property
    def numbers(self) -> tuple[int, int]:
        """Return (errno of the fault or 0, index of the fault in HOW)."""
        error = next((getattr(errno, word) for word in self.kind.split() if word not in HOW), 0)
        return error, next((HOW.index(word) for word in self.kind.split() if word in HOW), 0)


class Shim:
    """The compiled library of shim.c, which is preloaded into the processes of runs."""

    def __init__(self, folder: Path) -> None:
        """Compile shim.c. Raises ConfigError without a C compiler."""
        self.path = compiled(Path(__file__).with_name("shim.c"), folder)
        table = (ctypes.c_char_p * (len(FAULTS) + 1)).in_dll(ctypes.CDLL(str(self.path)), "call_names")
        self.calls = [name.decode() for name in itertools.takewhile(lambda name: name is not None, table)]
        assert sorted(self.calls) == sorted(FAULTS)

    def preload(self) -> None:
        """Set LD_PRELOAD, so that the processes started from now on load the library."""
        os.environ["LD_PRELOAD"] = f"{self.path} {os.environ.get('LD_PRELOAD', '')}".strip()


class Trials:
    """Trials of one mode, one after another in the folder `run` below `folder`."""

    def __init__(self, shim: Shim, mode: str, folder: Path, planted: str = "") -> None:
        """Train the undisturbed run, and count its system calls. Raises RuntimeError if the undisturbed run fails.
        `planted` is the name of a fault that is planted into accel_rl in the disturbed runs."""
        self._shim, self._folder, self._planted = shim, folder, planted
        self._folder.mkdir()
        self._run, self._mode = self._folder / "run", mode
        self._train = ["train", *MODES[mode].split(), *_EVERYWHERE.split(), "--run-dir", str(self._run)]
        code, output, _, self.counts = self._command(self._train, Fault(mode, shim.calls[0], "", False, -1))
        if code != 0:
            raise RuntimeError(f"the undisturbed run of {mode} ended with exit code {code}: {output}")
        self._expected = content(self._run)

    def faults(self, call: str, kinds: tuple[str, ...], every: int) -> Iterator[Fault]:
        """Yield the faults of the calls 1, 1 + every, ... of one kind of system call. The last call is at most the
        number of calls that the undisturbed run makes."""
        for kind in kinds:
            for for_ever in (False,) if set(kind.split()) & set(_ONCE) else (False, True):
                for n in range(1, self.counts[call] + 1, every):
                    yield Fault(self._mode, call, kind, for_ever, n)

    def outcome(self, fault: Fault) -> tuple[str, str]:
        """Run a trial, and return its outcome and a description. The outcome is "untouched" (the run made fewer calls),
        "went on", "resumed", "lost", "traceback", "hung" or "wrong"."""
        shutil.rmtree(self._run, ignore_errors=True)
        code, output, failed, _ = self._command(self._train, fault)
        if bad := _violation(code, output, killed="kill" in fault.kind):
            return bad
        if code == 0:
            difference = self._difference()
            return ("lost", difference) if difference else ("went on" if failed else "untouched", "")
        return self._resumed(output)

    def _resumed(self, output: str) -> tuple[str, str]:
        """Resume the disturbed run without a fault, and compare its files with those of the undisturbed run."""
        last = output.strip().splitlines()[-1:]
        saved = run_files.newest(self._run)
        logged = max(run_files.row_steps(self._run), default=1)
        due = (logged - 1) // SAVE_EVERY * SAVE_EVERY  # The newest checkpoint may be unfinished.
        if saved < due:
            return "lost", f"the newest checkpoint is at {saved} env steps, {due} were saved: {last}"
        words = ["resume", str(self._run)] if (self._run / "config.json").exists() else self._train
        code, output, _, _ = self._command(words, None)
        if bad := _violation(code, output, killed=False):
            return bad[0], f"resume: {bad[1]}"
        if code != 0 and not (saved == ENV_STEPS and "is finished" in output):
            return "lost", f"after {last}, {words[0]} ended with {code}: {output.strip().splitlines()[-1:]}"
        difference = self._difference()
        return ("lost", f"after {last}: {difference}") if difference else ("resumed", "")

    def _difference(self) -> str:
        """Return the names of the files that differ from those of the undisturbed run."""
        try:
            seen = content(self._run)
        except (OSError, ValueError, LookupError) as e:
            return f"cannot be read: {e}"
        return ", ".join(n for n in sorted({*seen, *self._expected}) if seen.get(n) != self._expected.get(n))

    def _command(self, words: list[str], fault: Fault | None) -> tuple[int | None, str, bool, dict[str, int]]:
        """Run accel-rl, and return (exit code, output, whether a call failed, number of calls by kind). The exit code
        is None if the command did not end, or left a process behind."""
        counters = self._folder / "counters"
        counters.write_bytes(bytes(4 * (1 + len(self._shim.calls))))
        module = "accel_rl"
        if fault is not None:
            module, kind = "tests.calls.armed", self._shim.calls.index(fault.call)
            numbers = [kind, fault.n, int(fault.for_ever), *fault.numbers]
            words = [self._planted, str(self._shim.path), str(counters), str(self._run), *map(str, numbers), *words]
        with tempfile.TemporaryFile() as output:
            process = warm.Forked(module, words, cwd=self._folder, start_new_session=True, stdout=output, stderr=output)
            try:
                code: int | None = process.wait(LIMIT_S)
                deadline = time.monotonic() + 10.0
                while _alive(process.pid) and time.monotonic() < deadline:
                    time.sleep(0.01)
                code = None if _alive(process.pid) else code
            except subprocess.TimeoutExpired:
                code = None
            if code is None and _alive(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
        failed, *counts = memoryview(counters.read_bytes()).cast("i")
        return code, text, bool(failed), dict(zip(self._shim.calls, counts, strict=True))


def _violation(code: int | None, output: str, killed: bool) -> tuple[str, str] | None:
    """Return the outcome "traceback", "hung" or "wrong" of a command that did not end in an allowed way."""
    lines = output.strip().splitlines()
    if code is None:
        return "hung", f"no end within {LIMIT_S:g} s: {lines[-1:]}"
    if "Traceback" in output:
        return "traceback", " / ".join(line.strip() for line in lines[-3:])
    line = lines[-1] if lines else ""
    if code not in (0, -signal.SIGKILL * killed) and not (code in (1, 2) and line.startswith("accel-rl")):
        return "wrong", f"exit code {code}: {lines[-1:]}"
    return None


def _alive(group: int) -> bool:
    """Return whether a process group has a living process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def content(run: Path) -> dict[str, object]:
    """Return a run's final files by name, and the rows of its metrics.csv without times under the name "rows"."""
    return {**run_files.final_files(run), "rows": run_files.rows(run)}
