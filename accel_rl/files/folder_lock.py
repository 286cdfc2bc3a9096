"""Locks the folder of a run or a sweep, so that only one process at a time writes its files. Detects that the folder
was removed or moved."""

import errno
import fcntl
import logging
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from accel_rl.files.durable_files import open_in_place
from accel_rl.text.errors import ConfigError

FILE = ".lock"
OWNER = ".lock-owner"
"""On a file system without locks, this file exists while a process holds the lock."""
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
PATIENCE_S = 0.5  # Acquiring a lock is retried for this time, because `holder` briefly acquires a free lock to test it.

logger = logging.getLogger(__name__)


class Holder(NamedTuple):
    """The process that holds a folder's lock."""

    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@contextmanager
def locked(folder: Path, message: Callable[[Holder], str]) -> Iterator[int]:
    """A context that locks a folder, and yields the descriptor of the lock. Raises ConfigError if another process holds
    the lock, or if the lock file is a link. `message` returns the error's text about the other process. The kernel
    releases the lock when the last process that inherited the descriptor exits.

    On a file system without locks (Lustre, NFS without lockd), the file OWNER with the process and its host takes the
    place of the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = open_in_place(folder / FILE, os.O_RDWR | os.O_CREAT, 0o644)
    claimed: Path | None = None
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
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                claimed = _claim(folder, message)
                break
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {platform.node()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)
        if claimed is not None:
            claimed.unlink(missing_ok=True)


def _claim(folder: Path, message: Callable[[Holder], str]) -> Path:
    """Create the file OWNER. Raises ConfigError if another process holds the lock by this file. If the file names a
    process of this host that has ended, the file is replaced."""
    file = folder / OWNER
    logger.warning(f"{folder} is on a file system without locks: {OWNER} takes their place")
    if (other := _owner(folder)) is not None:
        raise ConfigError(f"{message(other)}; if it has ended, remove {file}")
    file.unlink(missing_ok=True)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except FileExistsError:  # Another process has just created the file.
        raise ConfigError(message(_owner(folder) or Holder(0, "this host"))) from None
    with open(descriptor, "w") as f:
        f.write(f"{os.getpid()} {platform.node()} {_started(os.getpid())}\n")
    return file


def _owner(folder: Path) -> Holder | None:
    """The process that the folder's file OWNER names. Return None without such a file, or if the process was on this
    host and has ended."""
    try:
        pid, host, started = (folder / OWNER).read_text(errors="replace").split()
        owner = Holder(int(pid), host)
    except FileNotFoundError:
        return None
    except ValueError:
        return Holder(0, "an unknown host")
    has_ended = host == platform.node() and _started(owner.pid) != started
    return None if has_ended else owner


def _started(pid: int) -> str:
    """The start time of a process, which distinguishes the process from later ones with the same pid, or "" if there is
    no such process."""
    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return ""


def holder(folder: Path) -> Holder | None:
    """The process that holds the folder's lock, or None if the folder is not locked."""
    try:
        descriptor = open_in_place(folder / FILE, os.O_RDONLY)
    except (OSError, ConfigError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read(descriptor)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return _owner(folder)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Holder:
    pid, _, host = os.pread(descriptor, 256, 0).decode(errors="replace").strip().partition(" ")
    return Holder(int(pid) if pid.isdecimal() else 0, host or "this host")


GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


class HeldFolder:
    """A descriptor of a folder, which identifies the folder even if its path changes."""

    def __init__(self, path: Path):
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def is_at(self, path: Path) -> bool:
        """Whether the folder is still at this path. The result is false only if the path does not exist or is another
        folder; after any other error, it is true."""
        try:
            return os.path.samestat(os.stat(path), os.fstat(self._descriptor))
        except OSError as error:
            return error.errno not in GONE

    def follow(self) -> Path | None:
        """The current path of the folder, or None if the folder was removed or its new path is unknown."""
        if not self.is_at(self.path):
            try:  # Linux appends " (deleted)" to the path of a removed folder.
                moved = Path(os.readlink(f"/proc/self/fd/{self._descriptor}"))
            except OSError:
                return None
            if not self.is_at(moved):
                return None
            self.path = moved
        return self.path

    def close(self) -> None:
        os.close(self._descriptor)
