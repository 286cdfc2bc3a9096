"""A durable file survives a power failure, since its bytes and its name are synced to the disk."""

import os
from pathlib import Path


def write_durably(file: Path, data: bytes) -> None:
    """Create or replace a file atomically: the file has its old or its new content, even after a power failure. Raises
    OSError."""
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
    """Move a written file to its final path; only one of several processes can succeed. Raises FileExistsError if the
    file exists."""
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
