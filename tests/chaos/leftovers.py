"""Finds processes and names in /dev/shm that a trial leaves behind, and changes of files outside its run."""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

MARK = "ACCEL_RL_CHAOS"
"""An environment variable that marks all processes of a trial."""


class Leftovers:
    """Finds what the processes of a trial leave behind. The folder `outside` is created with files that the trial must
    not change."""

    def __init__(self, outside: Path) -> None:
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.outside = outside
        self.outside.mkdir(parents=True)
        for i in range(3):
            (self.outside / f"rows-{i:016x}.safetensors").write_text("a file of the user")
        self._before = _digest(self.outside)
        self._names = _names()

    def wait(self, timeout_s: float = 10.0) -> list[str]:
        """Return a description of each process, and of each name in /dev/shm, that remains for `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        while left := [*self._processes(), *self._in_memory()]:
            if time.monotonic() > deadline:
                return left
            time.sleep(0.05)
        return []

    def is_changed(self) -> bool:
        """Return whether a file in the folder `outside` has changed."""
        return _digest(self.outside) != self._before

    def kill(self) -> None:
        """Kill the remaining processes."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess):
                if self._marked(process):
                    process.kill()

    def _processes(self) -> Iterator[str]:
        for process in psutil.process_iter():
            if self._marked(process):
                yield f"{process.pid} {command_line(process)[-80:]}"

    def _in_memory(self) -> Iterator[str]:
        """Yield the names in /dev/shm that are new since the trial's beginning, and that no process maps."""
        if new := _names() - self._names:
            maps = "".join(_text(path) for path in Path("/proc").glob("[0-9]*/maps"))
            yield from (f"/dev/shm/{name}" for name in sorted(new) if f"/dev/shm/{name}" not in maps)

    def _marked(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark
        except psutil.Error:
            return False


def command_line(process: psutil.Process) -> str:
    """Return the command line of a process, or "" if the process has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _digest(folder: Path) -> str:
    """Return a digest of the names and contents of a folder's files."""
    result = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        result.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            result.update(path.read_bytes())
    return result.hexdigest()


def _names() -> set[str]:
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
