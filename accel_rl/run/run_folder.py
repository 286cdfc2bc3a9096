"""A run writes all of its files into one folder."""

import contextlib
import importlib.metadata
import itertools
import json
import logging
import os
import platform
import re
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from accel_rl.files import folder_lock
from accel_rl.files.durable_files import (
    open_in_place,
    place_new,
    refuse_link,
    remove_temporaries,
    sync_folder,
    write_durably,
    write_synced,
)
from accel_rl.files.file_system import check_renames
from accel_rl.files.folder_lock import HeldFolder
from accel_rl.settings.config_file import read_file, settings_in
from accel_rl.settings.trust import Trust, check_trust, code_names
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.version import __version__

if TYPE_CHECKING:
    from accel_rl.settings.train import TrainConfig

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).parent
EVENTS = "events.log"
PARTS = (
    "checkpoints", "segments", "evaluations", "best", "best-training", "ranks", "final", "videos", "tensorboard",
    "wandb",
)  # fmt: skip
_NESTED = ("best", "best-training")
_IN_PLACE = (folder_lock.FILE, EVENTS)
"""The files that a run changes in place. A run never changes other files in place, but replaces them."""
_BEGINNING = (
    folder_lock.FILE, folder_lock.OWNER, "config.json", "versions.json", "launches.json", "protocol.json", EVENTS,
    "init.safetensors",
)  # fmt: skip
_CHANGES = re.compile(r"changes-\d+\.diff", re.ASCII)
_PACKAGES = ("torch", "ale-py", "numpy", "gymnasium", "opencv-python-headless", "wandb")


class RunFolder:
    """A run's folder with config.json, versions.json, metrics.csv, events.log, evaluations/, checkpoints/, and the
    files of further sinks."""

    def __init__(self, path: Path, rank: int = 0):
        self.path = path
        self._rank = rank
        self._unwritten: list[str] = []  # Lines that could not be written to events.log yet
        self._held: HeldFolder | None = None
        self.moved = ""  # A message about the folder's new path, if the folder was moved during training

    @classmethod
    def default_path(cls, config: "TrainConfig") -> Path:
        name = re.sub("[/:, ]+", "_", config.env.label)
        algorithm = config.algorithm.replace(":", "_")
        return Path("runs") / f"{algorithm}-{name}-seed{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}"

    @classmethod
    def new_path(cls, config: "TrainConfig") -> Path:
        """Create an empty folder with the run's default name, followed by a number if another run has the same name."""
        path = cls.default_path(config)
        for candidate in itertools.chain([path], (path.with_name(f"{path.name}-{i}") for i in itertools.count(2))):
            with contextlib.suppress(FileExistsError):
                candidate.mkdir(parents=True)
                return candidate
        raise AssertionError

    @classmethod
    def check_new(cls, path: Path) -> None:
        """Raise ConfigError if a run cannot begin in this folder."""
        try:
            exists = (path / "config.json").exists()
        except OSError as e:  # The path is too long or cannot be read.
            raise ConfigError(f"--run-dir {path}: {e.strerror}") from e
        if exists:
            raise ConfigError(
                f"{path} already holds a run; go on with it: accel-rl resume {quote(str(path))}, or choose another "
                "--run-dir"
            )
        if path.exists() and not path.is_dir():
            raise ConfigError(f"--run-dir {path} is a file")
        cls(path).check_parts()
        parent = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not parent.is_dir():
            raise ConfigError(f"--run-dir {path}: {parent} is a file")
        if not os.access(parent, os.W_OK):
            raise ConfigError(f"--run-dir {path}: {parent} is not writable")

    @classmethod
    def create(cls, path: Path, config: "TrainConfig") -> "RunFolder":
        """Create a run in an empty folder. The settings are written first, so that a killed run can be resumed. Raises
        ConfigError if the folder contains a run, even a run that begins at the same moment."""
        cls.check_new(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise ConfigError(f"--run-dir {path}: cannot be created: {e.strerror}") from e
        run = cls(path)
        written = path / f".config.json.{uuid.uuid4().hex}"
        write_synced(written, _text(config.to_dict()).encode())
        try:
            place_new(written, path / "config.json")
        except FileExistsError:
            cls.check_new(path)
        finally:
            written.unlink()
        sync_folder(path)
        run.write_json("versions.json", versions())
        return run

    @classmethod
    def open(cls, path: Path, trust: Trust = False) -> "tuple[RunFolder, TrainConfig]":
        """Raises ConfigError if the folder contains no run, or if its settings name code without `trust`
        (accel_rl/settings/trust.py)."""
        from accel_rl.settings.train import TrainConfig  # This import of torch is not needed for lists of runs.

        values = read_file(path)
        try:
            check_trust(code_names(settings_in(values)), trust)
            return cls(path), TrainConfig.from_dict(values)
        except ConfigError as e:
            raise ConfigError(f"{path / 'config.json'}: {e}{cls(path)._where_begun(values)}") from e

    def _where_begun(self, values: Mapping[str, Any]) -> str:
        """A hint for errors about a user's class: the folder from which the run was last started."""
        algo = values.get("algo")
        network = algo.get("network", "") if isinstance(algo, Mapping) else ""
        named = [str(values.get("algorithm", "")), str(network)]
        if not any(":" in name for name in named):
            return ""
        try:
            folder = json.loads((self.path / "launches.json").read_text())[-1]["folder"]
        except (OSError, ValueError, LookupError, TypeError):
            return ""
        return "" if folder == str(Path.cwd()) else f"; the run was started in {folder}: run the command there"

    def check_parts(self) -> None:
        """Raise ConfigError if a subfolder, or a file that is changed in place, is a symbolic link. A run writes and
        removes files in its subfolders; through a link, it could remove another run's files."""
        for name in PARTS:
            if (self.path / name).is_symlink():
                raise ConfigError(
                    f"{self.path / name} is a link: a run writes and removes files in it; link the run's whole folder "
                    "instead"
                )
        for name in _IN_PLACE:
            refuse_link(self.path / name)
        ranks = self.path / "ranks"
        # The folders of best networks and of other ranks contain checkpoints, too.
        for folder in (*(self.path / name for name in _NESTED), *(ranks.iterdir() if ranks.is_dir() else ())):
            refuse_link(folder)
            if folder.is_dir():
                RunFolder(folder).check_parts()

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the run's folder for the process that trains, and remove the temporary files of killed processes. Raises
        ConfigError if another process trains the run, if a part of the folder is a link, or if its file system cannot
        rename folders."""
        self.check_parts()
        message = lambda holder: f"{self.path} is in use by {holder}: stop that run, or wait until it ends"  # noqa: E731
        with folder_lock.locked(self.path, message) as descriptor:
            for folder in (self.path, self.path / "evaluations"):
                if folder.is_dir():
                    remove_temporaries(folder)
            if warning := check_renames(self.path):
                logger.warning(warning)
            yield descriptor

    def discard(self) -> None:
        """Remove the folder if it contains only the files that are written when a run begins."""
        names = {path.name for path in self.path.iterdir()}
        beginning = {name for name in names if name in _BEGINNING or _CHANGES.fullmatch(name)}
        if names == beginning:
            for name in names:
                (self.path / name).unlink()
            self.path.rmdir()

    def hold(self) -> None:
        """Hold a descriptor of the folder, to detect that the folder was removed or moved."""
        self._held = HeldFolder(self.path)

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def follow(self) -> None:
        """If the folder was moved since `hold`, change `path` to the folder's new path, and set `moved`. Raises
        RunError if the folder was removed."""
        if self._held is None:
            return
        path = self._held.follow()
        if path is None:
            raise RunError(f"{self.path} was removed while the run trained: nothing more can be saved")
        if path != self.path:
            self.moved = f"{self.path} was moved to {path} while the run trained"
            self.path = path
            self.event(self.moved)

    def raise_if_moved(self, env_steps: int) -> None:
        """Raise RunError, after the checkpoint at `env_steps` is saved, if the folder was moved."""
        if self.moved:
            resume = f"accel-rl resume {quote(str(self.of_run))}"
            raise RunError(f"{self.moved}; saved at {env_steps:,} env steps; to go on: {resume}")

    @property
    def of_run(self) -> Path:
        """The folder of the whole run. The run's folder differs from `path` if this folder stores only one rank's
        checkpoints."""
        return self.path.parent.parent if self._rank else self.path

    def of_rank(self, rank: int) -> "RunFolder":
        """The folder of one rank's checkpoints. The folder of rank 0 is the run folder itself."""
        if rank == 0:
            return self
        folder = RunFolder(self.path / "ranks" / str(rank), rank)
        folder.path.mkdir(parents=True, exist_ok=True)
        return folder

    def write_json(self, name: str, value: Any) -> None:
        """Write atomically, so that the file survives a power failure. `name` may include a subfolder. Raises
        ConfigError if the subfolder is a link."""
        file = self.path / name
        if file.parent != self.path:
            refuse_link(file.parent)
            file.parent.mkdir(exist_ok=True)
        write_durably(file, _text(value).encode())

    def event(self, line: str) -> None:
        """Append a line to events.log, with the time. If a line cannot be written, for example on a full disk, the line
        is written together with the next line. If the run folder was moved and another folder is now at the old path,
        nothing is written to the other folder."""
        self._unwritten.append(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")
        with contextlib.suppress(OSError, RunError, ConfigError):
            self.follow()
            descriptor = open_in_place(self.path / EVENTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with open(descriptor, "a") as f:
                f.write("".join(self._unwritten))
                f.flush()
                self._unwritten.clear()

    def logged(self, error: RunError) -> RunError:
        """Write an error's notes, such as a worker's traceback, to events.log. The returned error names events.log."""
        notes = getattr(error, "__notes__", [])
        if not notes:
            return error
        for text in notes:
            self.event(text)
        return RunError(f"{error}; the traceback is in {self.path / EVENTS}")


def _text(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


def versions() -> dict[str, Any]:
    """The software on which a run's results depend."""
    result: dict[str, Any] = {
        "accel_rl": __version__,
        "python": platform.python_version(),
        "git": git_revision(),
    }
    return result | {package: _version_of(package) for package in _PACKAGES}


@cache
def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def git_revision(folder: Path = SOURCE) -> str | None:
    """The git revision of a checkout, followed by + if files have uncommitted changes. Return None outside a checkout.
    `folder` is by default the folder of this package."""
    head = git("rev-parse", "HEAD", folder=folder)
    if not head:
        return None
    return head.strip() + ("+" if (git("status", "--porcelain", "-uno", folder=folder) or "").strip() else "")


def git(*words: str, folder: Path) -> str | None:
    """The output of a git command, or None if the command fails."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, errors="replace", timeout=10
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
