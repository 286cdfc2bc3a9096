"""A simulated disk, on which processes save checkpoints until they are killed, and until a power failure.

Each file operation of accel_rl's code is recorded. After the power failure, the disk contains all operations that a
sync has made durable, and a random part of the other operations. New file names may be lost.
Written bytes may be lost, incomplete, or replaced by bytes of another file.
With strong order, as on journaling file systems, a sync of any file makes all earlier changes of names durable.
With weak order, which POSIX allows, a changed name is durable only after a sync of its own folder.
"""

import builtins
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.checkpoints.tensor_file import Segment
from accel_rl.files.durable_files import write_durably
from tests.schedules.system import replaced
from tests.schedules.world import Actor, World

BLOCK = 512
"""Bytes that one operation writes."""
STEP = 10
"""Env steps between two checkpoints."""


class File:
    """The recorded writes of a file, as (operation number, offset, data), and the operation numbers of its syncs."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int, bytes]] = []
        self.syncs: list[int] = []


class Folder:
    """The recorded changes of a folder, as (operation number, {name: new entry or None}), and its syncs."""

    def __init__(self) -> None:
        self.changes: list[tuple[int, dict[str, Entry | None]]] = []
        self.syncs: list[int] = []

    def get(self, name: str) -> "Entry | None":
        """Return the current file or folder with this name, or None."""
        return next((change[name] for _, change in reversed(self.changes) if name in change), None)


Entry = File | Folder


class SimulatedDisk:
    """Records all file operations of simulated processes in the folder `root`, which must be empty at first."""

    def __init__(self, world: World, root: Path) -> None:
        self.world, self.root = world, root
        self.folder, self.operations = Folder(), 0

    # What processes do

    def recorded(self) -> Any:
        """Return a context manager that records file operations. At each operation, another simulated process may
        continue."""
        changes = {
            "mkdir": self._naming(os.mkdir, Folder), "unlink": self._naming(os.unlink), "rmdir": self._naming(os.rmdir),
            "rename": self._renaming(os.rename), "replace": self._renaming(os.replace), "fsync": self._fsync,
        }  # fmt: skip
        functions = [(os, name, function) for name, function in changes.items()]
        return replaced(*functions, (builtins, "open", self._opening(open)))

    def _naming(self, real: Callable[..., None], new: Callable[[], Entry | None] = lambda: None) -> Callable[..., None]:
        """Return a function that calls `real`, and records which file or folder the path now names."""

        def change(path: Any, *args: Any, dir_fd: int | None = None, **options: Any) -> None:
            self.world.point()
            real(path, *args, dir_fd=dir_fd, **options)
            self._change(self._absolute(path, dir_fd), new())

        return change

    def _renaming(self, real: Callable[..., None]) -> Callable[..., None]:
        def rename(source: Any, target: Any) -> None:
            self.world.point()
            real(source, target)
            old, new = map(self._absolute, (source, target))
            folder, entry = self._entry(old)
            assert old.parent == new.parent, "moves between folders are not simulated"
            self._append(folder, {old.name: None, new.name: entry})

        return rename

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if isinstance(file, int) or self.root not in Path(file).parents or mode not in ("xb", "wb"):
                return real(file, mode, *args, **options)
            self.world.point()
            raw = _RecordedFile(self, os.fspath(file), mode)
            return io.BufferedWriter(raw)

        return opened

    def _fsync(self, descriptor: int) -> None:
        self.world.point()
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        entry = self.folder if path == self.root else self._entry(path)[1]
        assert entry is not None, f"{path} is synced after its removal"
        entry.syncs.append(self.operations)
        self.operations += 1

    def _absolute(self, path: Any, dir_fd: int | None = None) -> Path:
        return Path(path if dir_fd is None else os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path))

    def _entry(self, path: Path) -> tuple[Folder, Entry | None]:
        """Return the folder that contains a path, and the current file or folder at the path."""
        folder = self.folder
        *parents, name = path.relative_to(self.root).parts
        for parent in parents:
            entry = folder.get(parent)
            assert isinstance(entry, Folder), path
            folder = entry
        return folder, folder.get(name)

    def _change(self, path: Path, entry: Entry | None) -> None:
        self._append(self._entry(path)[0], {path.name: entry})

    def _append(self, folder: Folder, change: dict[str, Entry | None]) -> None:
        folder.changes.append((self.operations, change))
        self.operations += 1

    # After a power failure

    def after_failure(self, moment: int, target: Path) -> None:
        """Write to `target` what the disk may contain after a power failure just before the operation number
        `moment`."""
        rng = self.world.rng
        last_sync = max((n for n in self._syncs(self.folder) if n < moment), default=0)
        until, likely = rng.randint(last_sync, moment), rng.choice((0.1, 0.5, 0.9))
        chosen: dict[int, bool] = {}

        def survives(n: int, entry: Entry) -> bool:
            if n >= moment:
                return False
            if any(n < sync < moment for sync in entry.syncs):
                return True
            if isinstance(entry, Folder) and not self.world.weak:
                return n < until
            return chosen.setdefault(n, rng.random() < likely)

        def write(entry: Entry, path: Path) -> None:
            if isinstance(entry, File):
                path.write_bytes(self._bytes(entry, moment, survives))
                return
            path.mkdir()
            names: dict[str, Entry | None] = {}
            for n, change in entry.changes:
                if survives(n, entry):
                    names |= change
            for name, child in names.items():
                if child is not None:
                    write(child, path / name)

        write(self.folder, target)

    def _bytes(self, file: File, moment: int, survives: Callable[[int, Entry], bool]) -> bytes:
        content, rng = bytearray(), self.world.rng
        for n, offset, data in file.writes:
            if n >= moment:
                break
            # A write that is not durable is lost, incomplete, or replaced by random bytes.
            if not survives(n, file):
                part = data[: rng.randrange(len(data))]
                data = rng.choice((b"", part, part.ljust(len(data), b"\0"), rng.randbytes(len(data))))
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            content[offset : offset + len(data)] = data
        return bytes(content)

    def _syncs(self, folder: Folder) -> list[int]:
        entries = {id(e): e for _, change in folder.changes for e in change.values() if e is not None}.values()
        return folder.syncs + [n for e in entries for n in (self._syncs(e) if isinstance(e, Folder) else e.syncs)]


class _RecordedFile(io.FileIO):
    """A new file whose writes are recorded, as operations of at most BLOCK bytes."""

    def __init__(self, disk: SimulatedDisk, path: str, mode: str) -> None:
        super().__init__(path, mode)
        self._disk, self._file = disk, File()
        disk._change(Path(path), self._file)

    def write(self, data: Any) -> int:
        self._disk.world.point()
        offset = self.tell()
        part = bytes(data)[:BLOCK]
        n = super().write(part)
        self._file.writes.append((self._disk.operations, offset, part))
        self._disk.operations += 1
        return n


class Disk:
    """Simulates processes that save checkpoints until a power failure. If a process is killed, the next one resumes
    from the newest checkpoint."""

    def __init__(self, world: World, faults: int) -> None:
        self.world, self.kills = world, faults
        self.keep = world.rng.choice((1, 2, 3))
        self.finished: list[tuple[int, int]] = []
        """Pairs (number of operations, env steps) of finished calls of `save`."""
        self.resumed: list[tuple[int, int]] = []
        """Pairs (number of operations, env steps) of the checkpoints from which processes have resumed.

        A killed process may have completed a checkpoint although its call of `save` has not returned.
        """
        self.launched: list[tuple[int, int]] = []
        """Pairs (number of operations, env steps) of finished calls of `write_durably`."""

    def main(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            root = Path(os.path.realpath(name)) / "before"
            root.mkdir()
            disk = SimulatedDisk(self.world, root)
            run = root / "run"
            with disk.recorded():
                run.mkdir()
                disk.folder.syncs.append(disk.operations)
                disk.operations += 1
                for _ in range(self.kills + 1):
                    saves = self.world.rng.randint(1, 4)
                    self._until_killed(self.world.spawn("process", lambda saves=saves: self._save(disk, run, saves)))
            moment = self.world.rng.randint(2, disk.operations)
            disk.after_failure(moment, root.with_name("after"))
            self._check(root.with_name("after") / "run", moment)

    def _until_killed(self, process: Actor) -> None:
        """Wait until a process ends, or kill the process after a random number of operations."""
        operations = self.world.rng.randint(1, 120) if self.kills else 10_000

        def count() -> None:
            nonlocal operations
            operations -= self.world.current is process
            if operations == 0:
                self.world.kill(process)

        self.world.on_point = count
        self.world.block(lambda: process.is_over or process.is_killed)
        self.world.on_point = lambda: None
        self.world.check([process])

    def _save(self, disk: SimulatedDisk, run: Path, saves: int) -> None:
        checkpoints = Checkpoints(run / "checkpoints", self.keep)
        newest = checkpoints.load_latest()
        first = (newest[0] if newest else 0) + STEP
        self.resumed.append((disk.operations, first - STEP))
        checkpoints.clean()
        for steps in range(first, first + saves * STEP, STEP):
            write_durably(run / "launches.json", str(steps).encode())
            self.launched.append((disk.operations, steps))
            checkpoints.save(steps, _state(steps))
            self.finished.append((disk.operations, steps))

    def _check(self, run: Path, moment: int) -> None:
        """Check that the checkpoints after a power failure are complete. Raises AssertionError or ConfigError."""
        saved = [steps for n, steps in self.finished if n <= moment]
        checkpoints = Checkpoints(run / "checkpoints", self.keep)
        newest = max(checkpoints.steps(), default=0)
        assert newest >= max(saved, default=0), f"the newest checkpoint is at {newest}, saved were {saved}"
        # The newest checkpoint may come from a call of `save` that was interrupted after the write.
        written = {newest, *(steps for n, steps in self.finished + self.resumed if n <= moment and steps < newest)} - {
            0
        }
        for steps in sorted(written)[-self.keep :]:
            _assert_equal(load(checkpoints.path(steps)), steps)
        if durable := [steps for n, steps in self.launched if n <= moment]:
            assert durable[-1] <= int((run / "launches.json").read_bytes()) <= durable[-1] + STEP
        checkpoints.clean()
        checkpoints.save(1_000, _state(1_000))  # The next process can save a checkpoint.
        _assert_equal(load(checkpoints.path(1_000)), 1_000)


def _segment(low: int) -> Segment:
    return Segment(f"rows-{low:012d}", lambda: {"rows": torch.arange(100) + low})


def _state(steps: int) -> dict[str, Any]:
    """Return the state of a checkpoint at `steps` env steps, with replay segments of the last 30 env steps."""
    segments = [_segment(low) for low in range(max(0, steps - 30), steps, STEP)]
    return {"env_steps": steps, "weights": torch.arange(200.0) + steps, "segments": segments}


def _assert_equal(loaded: dict[str, Any], steps: int) -> None:
    expected = _state(steps)
    segments = [(s.name, s.load()["rows"].tolist()) for s in loaded["segments"]]
    assert segments == [(s.name, s.load()["rows"].tolist()) for s in expected["segments"]], f"segments of {steps}"
    assert loaded["env_steps"] == steps and torch.equal(loaded["weights"], expected["weights"]), f"state of {steps}"
