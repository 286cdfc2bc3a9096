"""This module locks a folder, so that only one process at a time writes a run's or a sweep's files."""

import fcntl
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from accel_rl.system.errors import ConfigError

FILE = ".lock"
PATIENCE_S = 0.5  # `holder` holds the lock for less than PATIENCE_S seconds.


class Holder(NamedTuple):
    """A `Holder` is the process that holds a folder's lock."""

    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@contextmanager
def locked(folder: Path, message: Callable[[Holder], str]) -> Iterator[int]:
    """Return a context manager that locks a folder, and yields the descriptor of the lock. Raises ConfigError if
    another process holds the lock, with the `message` about that process. The kernel releases the lock when the last
    process that inherited the descriptor exits."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConfigError(message(_read(descriptor))) from None
                time.sleep(0.05)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {platform.node()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def holder(folder: Path) -> Holder | None:
    """Return the process that holds a folder's lock, or None."""
    try:
        descriptor = os.open(folder / FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Holder:
    pid, _, host = os.pread(descriptor, 256, 0).decode().strip().partition(" ")
    return Holder(int(pid or 0), host or "this host")
