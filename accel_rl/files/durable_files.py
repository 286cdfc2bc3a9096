"""Files survive a power failure, because their bytes and their names are synced to the disk. No file is written through
a link, because a link in another user's folder could lead to any of the user's files."""

import contextlib
import os
import re
import shutil
import stat
import uuid
from pathlib import Path

from accel_rl.text.errors import ConfigError

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.ASCII)


def write_durably(file: Path, data: bytes) -> None:
    """Create or replace a file atomically: even after a power failure, the file has either its old or its new content.
    A link is replaced, and the file to which it leads is unchanged. Raises OSError."""
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
    try:
        write_synced(temporary, data)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(file.parent)


def write_synced(file: Path, data: bytes) -> None:
    """Write a new file, and sync its bytes to the disk. Raises FileExistsError if `file` exists, even as a link."""
    with open(file, "xb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def remove_temporaries(folder: Path) -> None:
    """Remove the temporary files of calls of `write_durably` that were killed. No process may be writing into the
    folder."""
    for file in folder.iterdir():
        if _TEMPORARY.fullmatch(file.name) and stat.S_ISREG(file.lstat().st_mode):
            file.unlink(missing_ok=True)


def remove_folder(folder: str | Path) -> None:
    """Remove a folder, ignoring all errors."""
    with contextlib.suppress(OSError):  # Python's rmtree closes a descriptor twice, if closing it failed.
        shutil.rmtree(folder, ignore_errors=True)


def place_new(written: Path, file: Path) -> None:
    """Create `file` with the content of the file `written`. If several processes try to create `file`, only one
    succeeds. Raises FileExistsError if `file` exists."""
    try:
        os.link(written, file)  # A hard link makes the complete file appear atomically.
    except FileExistsError:
        raise
    except OSError:  # Some file systems have no hard links.
        with open(file, "xb") as f:
            f.write(written.read_bytes())


def open_in_place(file: Path, flags: int, mode: int = 0o666) -> int:
    """Open a file that is not replaced but changed in place (`flags` as in `os.open`), and return the descriptor.
    Raises ConfigError if the file is a link or not a regular file, and OSError."""
    refuse_link(file)
    # O_NOFOLLOW is set because the file may have become a link since the check.
    # O_NONBLOCK is set because opening a pipe would wait.
    descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError(f"{file} is not a regular file; remove it")
    return descriptor


def refuse_link(path: Path, why: str = "another file would be written through it") -> None:
    """Raise ConfigError, which gives the reason `why`, if a file or folder is a link."""
    if path.is_symlink():
        raise ConfigError(f"{path} is a link ({why}); remove it")


def sync_folder(folder: Path) -> None:
    """Sync the names of a folder's files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
