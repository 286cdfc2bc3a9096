"""Checkpoints stay usable after a full disk and after a kill at any moment, and damage such as a flipped bit is
detected.

A checkpoint is a folder that contains state.json, state.safetensors and MANIFEST.json. The manifest lists the sha256 of
the other two files, the names of the segments, the run's times, and a checksum of the manifest itself. Except for the
times, the checkpoint files of two equal runs are equal. A checkpoint's folder is written
under a temporary name, synced, and renamed, so a folder with its final name is complete. Large parts of a state that no
longer change (the rows of a replay) are segments. Segments are files outside the checkpoint folders, written once and
shared by all checkpoints that contain them.
"""

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from accel_rl.checkpoints.saved_steps import CHECKPOINT, checkpoint_steps
from accel_rl.checkpoints.segment_store import SegmentStore
from accel_rl.checkpoints.state_tree import decode, encode
from accel_rl.files.durable_files import remove_folder, sync_folder, write_durably, write_synced
from accel_rl.text.errors import ConfigError, RunError

logger = logging.getLogger(__name__)

FORMAT = "accel_rl checkpoint 5"
_FILES = ("state.json", "state.safetensors")
_WRITING = re.compile(r"\.writing-\d+-.*", re.ASCII)
_ABANDONED = "abandoned-"


class Checkpoints:
    """The checkpoints of one run. The folder `folder`/000000020000 contains the state after 20,000 env steps."""

    def __init__(self, folder: Path, keep: int = 3):
        self.folder, self.keep = folder, keep
        self.segments = SegmentStore(folder.parent / "segments")

    def steps(self) -> list[int]:
        """Env steps of all checkpoints, ascending."""
        return checkpoint_steps(self.folder)

    def path(self, env_steps: int) -> Path:
        return self.folder / f"{env_steps:012d}"

    def save(self, env_steps: int, state: dict[str, Any], time: dict[str, Any] | None = None) -> Path:
        """Write a checkpoint atomically, and then remove all but the newest `keep` checkpoints. `time` is the state of
        clocks, the key `time` of a loaded checkpoint. Raises RunError if the disk is full; earlier checkpoints are then
        unchanged."""
        final = self.path(env_steps)
        temporary = self.folder / f".writing-{os.getpid()}-{env_steps}"
        times = {} if time is None else {"time": time}
        try:
            self.segments.begin()
            text, tensors = encode(state, self.segments.put)
            self.folder.mkdir(exist_ok=True)  # If the run folder was removed, it is not created again.
            remove_folder(temporary)
            temporary.mkdir()
            for name, data in zip(_FILES, (text, tensors), strict=True):
                write_synced(temporary / name, data)
            self.segments.sync()
            sums = {n: hashlib.sha256(d).hexdigest() for n, d in zip(_FILES, (text, tensors), strict=True)}
            manifest = {"format": FORMAT, "env_steps": env_steps, "sha256": sums, **times} | self.segments.named()
            manifest["checksum"] = _checksum(manifest)
            write_synced(temporary / "MANIFEST.json", json.dumps(manifest, indent=1).encode())
            sync_folder(temporary)
            sync_folder(self.folder.parent)  # The name of the folder `checkpoints` is synced, too.
            self._remove(final)
            os.rename(temporary, final)
            sync_folder(self.folder)
        except OSError as e:
            remove_folder(temporary)
            raise RunError(f"could not write checkpoint {final}: {e.strerror or e}; the earlier ones are whole") from e
        try:
            self.remove(old for old in self.steps()[: -self.keep] if old != env_steps)
            for doomed in self.folder.glob(f".writing-{os.getpid()}-old-*"):  # folders that earlier removals have left
                remove_folder(doomed)
        except OSError as e:  # The next `save` tries to remove the checkpoint again.
            logger.warning(f"an old checkpoint in {self.folder} could not be removed: {e.strerror or e}")
        return final

    def remove(self, steps: Iterable[int]) -> None:
        """Remove checkpoints, and the segments to which no other checkpoint refers."""
        for env_steps in steps:
            self._remove(self.path(env_steps))
        self._collect()

    def set_aside(self, env_steps: int) -> list[int]:
        """Move the checkpoints after `env_steps`, from which the run continues, to a folder abandoned-1, abandoned-2
        ... Return the env steps of the moved checkpoints."""
        later = [steps for steps in self.steps() if steps > env_steps]
        if later:
            folder = self.folder.parent / f"{_ABANDONED}{len(list(self._abandoned())) + 1}"
            folder.mkdir()
            for steps in later:
                os.rename(self.path(steps), folder / self.path(steps).name)
        return later

    def _abandoned(self) -> Iterator[Path]:
        return self.folder.parent.glob(f"{_ABANDONED}*")

    def _collect(self) -> None:
        """Remove the segments to which no checkpoint refers."""
        held: set[str] = set()
        abandoned = (p for folder in self._abandoned() for p in folder.iterdir() if CHECKPOINT.fullmatch(p.name))
        for path in (*map(self.path, self.steps()), *abandoned):
            try:
                held |= set(_read_manifest(path).get("segments", []))
            except (OSError, ValueError, LookupError, TypeError, RecursionError):
                return  # No segment is removed, because the segments of a damaged checkpoint are unknown.
        self.segments.keep_only(held)

    def renumber(self, env_steps: int, number: int) -> None:
        """Change the number of env steps of a checkpoint to `number`. Raises OSError, ValueError or ConfigError for a
        damaged manifest."""
        temporary = self.folder / f".writing-{os.getpid()}-{number}"
        remove_folder(temporary)
        shutil.copytree(self.path(env_steps), temporary)
        manifest = {**_read_manifest(temporary), "env_steps": number}
        manifest["checksum"] = _checksum(manifest)
        write_durably(temporary / "MANIFEST.json", json.dumps(manifest, indent=1).encode())
        os.rename(temporary, self.path(number))
        sync_folder(self.folder)
        self._remove(self.path(env_steps))

    def _remove(self, path: Path) -> None:
        """Rename a checkpoint's folder, and then remove it, so that every folder with a checkpoint's name is
        complete."""
        if path.exists():
            doomed = self.folder / f".writing-{os.getpid()}-old-{path.name}"
            remove_folder(doomed)
            os.rename(path, doomed)
            remove_folder(doomed)

    def clean(self) -> None:
        """Remove the temporary files of an interrupted write, and unused segments. A run restores its checkpoint before
        it calls `clean`, so that no file of a damaged checkpoint is removed."""
        if self.folder.is_dir() and not self.folder.is_symlink():
            for p in self.folder.glob(".writing-*"):
                if _WRITING.fullmatch(p.name):
                    remove_folder(p)
        self._collect()

    def load_latest(self) -> tuple[int, dict[str, Any]] | None:
        """Verify the newest checkpoint, and return (env steps, state). Raises ConfigError if the checkpoint is
        damaged."""
        steps = self.steps()
        return (steps[-1], load(self.path(steps[-1]))) if steps else None


def load(path: Path) -> dict[str, Any]:
    """Verify a checkpoint folder. Segments are verified when they are read. Raises ConfigError, with a message of one
    line, if the folder is not a checkpoint or is damaged."""
    segments = SegmentStore(path.parent.parent / "segments")
    try:
        manifest = _read_manifest(path)
        if CHECKPOINT.fullmatch(path.name) and int(path.name) != manifest["env_steps"]:
            raise ConfigError(f"{path} is the checkpoint at {manifest['env_steps']} env steps under another name")
        data = []
        for name in _FILES:
            content = (path / name).read_bytes()
            if hashlib.sha256(content).hexdigest() != manifest["sha256"][name]:
                raise ConfigError(f"{path / name} is damaged (its sha256 is not the manifest's){_others(path)}")
            data.append(content)
        state = decode(data[0], data[1], segments.get)
        return {**state, "time": manifest["time"]} if "time" in manifest else state
    except ConfigError:
        raise
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as e:
        raise ConfigError(f"{path} is no readable checkpoint ({_one_line(e)}){_others(path)}") from e


def _read_manifest(path: Path) -> dict[str, Any]:
    """Raises ConfigError for a wrong checksum or an unknown format, and OSError or ValueError if the manifest cannot be
    read."""
    try:
        manifest = json.loads((path / "MANIFEST.json").read_bytes())
    except RecursionError as e:
        raise ValueError(f"{path / 'MANIFEST.json'} is nested too deeply") from e
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        got = manifest.get("format") if isinstance(manifest, dict) else manifest
        raise ConfigError(f"{path}: its format is {got!r}, and this version of accel_rl reads {FORMAT!r} alone")
    if manifest.pop("checksum", None) != _checksum(manifest):
        raise ConfigError(f"{path / 'MANIFEST.json'} is damaged (its checksum differs){_others(path)}")
    return manifest


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _others(path: Path) -> str:
    """A text that suggests another checkpoint instead of the damaged checkpoint `path`."""
    others = [s for s in Checkpoints(path.parent).steps() if CHECKPOINT.fullmatch(path.name) and s != int(path.name)]
    return f"; delete it to go on from {path.parent / f'{others[-1]:012d}'}" if others else ""


def _one_line(e: BaseException) -> str:
    return " ".join(str(e).split())
