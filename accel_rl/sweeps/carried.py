"""The folder --carry of a sweep has runs of the sweep in a few files, so that the sweep can continue on another
machine.

    carried-1.zip, carried-2.zip ...    at most `file_bytes` each, stored without compression
      NAME@20000.1of1                   a finished run after 20,000 env steps: a zip of its files (packed_run.py)
      NAME@12000-unfinished.2of3        the second piece of a run that continues from its checkpoint

Files are written atomically. An item (a run, or compiled code) is used only if all of its pieces are present. A new
item is written before the item that it replaces is removed, so that one of the two survives if the sweep is killed.
"""

import io
import logging
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from accel_rl.files.code_cache import is_private
from accel_rl.files.durable_files import remove_temporaries, write_durably
from accel_rl.text.errors import ConfigError

logger = logging.getLogger(__name__)

FILE_BYTES = 15_000_000
_FILE = re.compile(r"carried-(\d+)\.zip", re.ASCII)
_MEMBER = re.compile(r"(?P<name>.+)@(?P<steps>\d+)(?P<unfinished>-unfinished)?\.(?P<i>\d+)of(?P<n>\d+)", re.ASCII)
LEAST_PIECE = 1_000  # Files with less room than LEAST_PIECE bytes get no piece.

Members = Mapping[str, bytes]


class Item(NamedTuple):
    name: str
    env_steps: int
    is_finished: bool = True

    def member(self, i: int, n: int) -> str:
        return f"{self.name}@{self.env_steps}{'' if self.is_finished else '-unfinished'}.{i}of{n}"


class Carried:
    """Reads the folder of --carry, and adds items to it. All files together have at most `total_bytes`."""

    def __init__(self, path: Path, total_bytes: int, file_bytes: int = FILE_BYTES):
        self.path, self.total_bytes = path, total_bytes
        self._file_bytes = min(file_bytes, total_bytes)
        self._most_files = max(1, total_bytes // self._file_bytes)
        self._files: dict[int, Members] = {}  # {number of the file: its members}
        self.is_private = not path.exists() or is_private(path.stat())
        for file in sorted(path.glob("carried-*.zip")) if path.is_dir() else ():
            if not (match := _FILE.fullmatch(file.name)):
                continue
            try:
                descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                with open(descriptor, "rb") as opened, zipfile.ZipFile(opened) as z:
                    # fstat of the opened file, because another file may now be at the path
                    self.is_private = self.is_private and is_private(os.fstat(opened.fileno()))
                    self._files[int(match[1])] = {
                        name: z.read(name) for name in z.namelist() if _MEMBER.fullmatch(name)
                    }
            except (OSError, zipfile.BadZipFile) as e:
                logger.info(f"{file} is ignored, because it cannot be read: {e}")

    def open(self) -> None:
        """Create the folder, and remove temporary files that a killed process has left. Raises ConfigError if the
        folder is not writable."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_durably(self.path / ".writable", b"")
            (self.path / ".writable").unlink()
            remove_temporaries(self.path)
        except OSError as e:
            raise ConfigError(f"--carry {self.path}: cannot be written: {e.strerror}") from e

    @property
    def items(self) -> list[Item]:
        return [item for item, (n, pieces) in self._pieces().items() if len(pieces) == n]

    def newest(self, name: str) -> Item | None:
        """Return the item of the run `name` with the most env steps, or None."""
        same = [item for item in self.items if item.name == name]
        return max(same, key=lambda item: (item.env_steps, item.is_finished), default=None)

    def _pieces(self) -> dict[Item, tuple[int, dict[int, bytes]]]:
        """Return {item: (number of its pieces, {piece number: content})}."""
        result: dict[Item, tuple[int, dict[int, bytes]]] = {}
        for members in self._files.values():
            for member, data in members.items():
                item, i, n = _parsed(member)
                result.setdefault(item, (n, {}))[1][i] = data
        return result

    def get(self, item: Item) -> bytes:
        n, pieces = self._pieces()[item]
        return b"".join(pieces[i] for i in range(1, n + 1))

    @property
    def file_sizes(self) -> list[int]:
        return [_size(members) for members in self._files.values()]

    def put(self, item: Item, data: bytes, evicted: Sequence[Item] = ()) -> bool:
        """Write an item, then remove other items of the same name and those in `evicted`. Return False, and change
        nothing, if the folder has too little room even without these items. Raises OSError."""
        replaced = {other for other in self._pieces() if other.name == item.name} | set(evicted)
        kept = {number: _without(members, replaced) for number, members in self._files.items()}
        numbers = {int(m[1]) for file in self.path.iterdir() if (m := _FILE.fullmatch(file.name))}
        unused = iter(range(max(numbers, default=0) + 1, 10**9))
        rooms = {number: self._file_bytes - _size(members) for number, members in kept.items()}
        while len(rooms) < self._most_files:
            rooms[next(unused)] = self._file_bytes - _size({})
        parts = _divided(len(data), {number: room - _size_of_member(item) for number, room in rooms.items()})
        if not parts:
            return False
        start, added = 0, {}
        for i, (number, length) in enumerate(parts, 1):
            added[number] = {item.member(i, len(parts)): data[start : start + length]}
            start += length
        for number, members in added.items():  # Replaced items are removed only after the last piece is written.
            self._write(number, {**self._files.get(number, {}), **members})
        for number, members in kept.items():
            self._write(number, {**members, **added.get(number, {})})
        return True

    def _write(self, number: int, members: Members) -> None:
        if self._files.get(number) == members:
            return
        file = self.path / f"carried-{number}.zip"
        if not members:
            file.unlink(missing_ok=True)
            del self._files[number]
            return
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as z:
            for name, data in members.items():
                z.writestr(name, data)
        write_durably(file, buffer.getvalue())
        # Compiled code is used only from files that other users cannot write.
        os.chmod(file, file.stat().st_mode & ~0o022)
        self._files[number] = members


def _parsed(member: str) -> tuple[Item, int, int]:
    m = _MEMBER.fullmatch(member)
    assert m is not None
    return Item(m["name"], int(m["steps"]), not m["unfinished"]), int(m["i"]), int(m["n"])


def _without(members: Members, items: Iterable[Item]) -> dict[str, bytes]:
    return {member: data for member, data in members.items() if _parsed(member)[0] not in items}


def _divided(size: int, rooms: Mapping[int, int]) -> list[tuple[int, int]]:
    """Divide `size` bytes among files with the given free bytes (`rooms`), in one piece if possible. Return the (file,
    bytes) of each piece, or [] if there is too little room."""
    if fitting := [number for number, room in rooms.items() if room >= size]:
        return [(fitting[0], size)]
    parts = []
    for number, room in rooms.items():
        if room >= LEAST_PIECE and size:
            parts.append((number, min(room, size)))
            size -= parts[-1][1]
    return [] if size else parts


def _size(members: Members) -> int:
    return 22 + sum(76 + 2 * len(name.encode()) + len(data) for name, data in members.items())


def _size_of_member(item: Item) -> int:
    return _size({item.member(999, 999): b""}) - _size({})
