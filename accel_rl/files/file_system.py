"""A run folder needs a file system that renames folders, because a checkpoint is renamed when it is complete."""

import os
import uuid
from pathlib import Path

import psutil

from accel_rl.files.durable_files import remove_folder
from accel_rl.text.errors import ConfigError

COPIES = ("s3fs", "goofys", "gcsfuse", "blobfuse", "blobfuse2", "rclone", "mountpoint-s3")
"""Names of FUSE file systems over object stores, which rename a folder by copying each of its files."""


def check_renames(folder: Path) -> str:
    """A warning if the folder's file system does not rename folders atomically, and otherwise "". Raises ConfigError if
    the file system cannot rename folders or replace files at all."""
    probe = folder / f".probe-{uuid.uuid4().hex}"
    try:
        (probe / "written").mkdir(parents=True)
        for name in ("old", "new"):
            (probe / "written" / name).write_text(name)
        os.replace(probe / "written" / "new", probe / "written" / "old")
        os.rename(probe / "written", probe / "final")
        (probe / "final" / "old").read_bytes()
    except OSError as e:
        raise ConfigError(
            f"{folder}: its file system cannot rename files and folders ({e.strerror or e}), so no checkpoint could "
            "be written; choose another folder"
        ) from e
    finally:
        remove_folder(probe)
    kind = _kind(folder)
    if kind not in COPIES:
        return ""
    return (
        f"{folder} is on {kind}, which renames a folder file by file: if the run is killed while it writes a "
        "checkpoint, the checkpoint may be incomplete (its checksums show it), and an earlier one must be chosen"
    )


def _kind(folder: Path) -> str:
    """The type of the file system that contains a folder. For FUSE, the name of the program, such as s3fs."""
    path = folder.resolve()
    mounts = [m for m in psutil.disk_partitions(all=True) if path.is_relative_to(m.mountpoint)]
    if not mounts:
        return ""
    mount = max(mounts, key=lambda m: len(m.mountpoint))
    # If the type is only "fuse", some programs write their name in the field of the device.
    return mount.device if mount.fstype == "fuse" else mount.fstype.removeprefix("fuse.")
