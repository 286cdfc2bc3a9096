"""Checkpoints share segment files. Each segment is written once, synced and renamed, and verified when it is read."""

import hashlib
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import Tensor

from accel_rl.checkpoints.tensor_file import Segment, load, save
from accel_rl.files.durable_files import sync_folder, write_durably
from accel_rl.text.errors import ConfigError

_FILE = re.compile(r".+-[0-9a-f]{16}\.safetensors(\.[0-9a-f]{32}\.tmp)?", re.ASCII)


class SegmentStore:
    """The segment files of one run. A segment's file name consists of the segment's name and the beginning of its
    sha256, so that two runs that continue from the same checkpoint do not read each other's segments."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._known: dict[str, str] = {}  # Maps the name of each segment on disk to the segment's sha256.
        self._used: dict[str, str] = {}

    def begin(self) -> None:
        self._used = {}

    def has(self, segment: Segment) -> bool:
        if segment.checksum and self._path(segment.name, segment.checksum).exists():
            self._known[segment.name] = segment.checksum
        return segment.name in self._known

    def put(self, segment: Segment) -> str:
        """Write a segment unless it is already on disk, and return its sha256. Raises OSError."""
        if not self.has(segment):
            tensors = {name: t.contiguous() for name, t in segment.load().items()}
            data = save(tensors)
            checksum = hashlib.sha256(data).hexdigest()
            path = self._path(segment.name, checksum)
            if not path.exists():
                self.folder.mkdir(exist_ok=True)
                write_durably(path, data)
            self._known[segment.name] = checksum
        self._used[segment.name] = self._known[segment.name]
        return self._used[segment.name]

    def sync(self) -> None:
        """Sync the names of all segment files to the disk, including those of segments that a killed process has
        written."""
        if self._used:
            sync_folder(self.folder)

    def named(self) -> dict[str, Any]:
        """The manifest entry that lists the segments of the current checkpoint."""
        return {"segments": [self._path(*item).name for item in self._used.items()]} if self._used else {}

    def get(self, name: str, checksum: str) -> Segment:
        """Return the segment of this name, without reading its file yet. The later read raises ConfigError if the
        segment's file is missing or damaged."""
        return Segment(name, lambda: self._read(name, checksum), checksum)

    def _read(self, name: str, checksum: str) -> dict[str, Tensor]:
        path = self._path(name, checksum)
        try:
            data = path.read_bytes()
        except OSError as e:
            raise ConfigError(f"{path}, a part of the checkpoint, cannot be read: {e.strerror}") from e
        if hashlib.sha256(data).hexdigest() != checksum:
            raise ConfigError(f"{path} is damaged (its sha256 is not the checkpoint's)")
        return load(data)

    def keep_only(self, held: Iterable[str]) -> None:
        """Remove all segment files except those in `held`, and the temporary files of an interrupted write. Links are
        not followed, and files whose names are not those of segments are not removed."""
        held = set(held)
        for path in self.folder.iterdir() if self.folder.is_dir() and not self.folder.is_symlink() else ():
            if path.name not in held and _FILE.fullmatch(path.name) and stat.S_ISREG(path.lstat().st_mode):
                path.unlink(missing_ok=True)
        self._known = {name: c for name, c in self._known.items() if self._path(name, c).name in held}

    def _path(self, name: str, checksum: str) -> Path:
        return self.folder / f"{name}-{checksum[:16]}.safetensors"
