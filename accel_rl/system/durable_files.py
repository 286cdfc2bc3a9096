"""This module writes files that survive a power failure, because their bytes and their names are synced to the disk."""

import os
from pathlib import Path


def write_durably(file: Path, data: bytes) -> None:
    """Create or replace a file atomically: even after a power failure, the file has either its old or its new content.
    Raises OSError."""
    temporary = file.with_name(f".{file.name}.tmp")
    try:
        write_synced(temporary, data)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(file.parent)


def write_synced(file: Path, data: bytes) -> None:
    """Write a file, and sync its bytes to the disk."""
    with open(file, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def place_new(written: Path, file: Path) -> None:
    """Create `file` with the content of the file `written`. If several processes try this, only one succeeds. Raises
    FileExistsError if `file` exists."""
    try:
        os.link(written, file)  # A hard link makes the complete file appear atomically.
    except FileExistsError:
        raise
    except OSError:  # Some file systems have no hard links.
        with open(file, "xb") as f:
            f.write(written.read_bytes())


def sync_folder(folder: Path) -> None:
    """Sync the names of a folder's files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
