"""A run's folder: everything about the run, and nothing outside it."""

import importlib.metadata
import json
import os
import platform
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

from accel_rl.config.train import TrainConfig
from accel_rl.system.errors import ConfigError
from accel_rl.version import __version__

_PACKAGES = ("torch", "ale-py", "numpy", "gymnasium", "opencv-python-headless", "tyro", "wandb")


class RunFolder:
    """config.json, versions.json, metrics.csv, events.log, evaluations/, checkpoints/, and what sinks add."""

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    def default_path(cls, config: TrainConfig) -> Path:
        name = (config.env.game or config.env.id).replace("/", "_").replace(":", "_")
        algorithm = config.algorithm.replace(":", "_")
        return Path("runs") / f"{algorithm}-{name}-seed{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}"

    @classmethod
    def check_new(cls, path: Path) -> None:
        """ConfigError if a run cannot be begun there."""
        if (path / "config.json").exists():
            raise ConfigError(
                f"{path} already holds a run; go on with it: accel-rl resume {path}, or choose another --run-dir"
            )
        if path.exists() and not path.is_dir():
            raise ConfigError(f"--run-dir {path} is a file")
        parent = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not os.access(parent, os.W_OK):
            raise ConfigError(f"--run-dir {path}: {parent} is not writable")

    @classmethod
    def create(cls, path: Path, config: TrainConfig) -> "RunFolder":
        """Begin a run. The configuration is written before anything else, so that a killed run can be resumed."""
        cls.check_new(path)
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path)
        run.write_json("versions.json", versions())
        run.write_json("config.json", config.to_dict())
        return run

    @classmethod
    def open(cls, path: Path) -> tuple["RunFolder", TrainConfig]:
        """A run that is there. ConfigError if there is none."""
        file = path / "config.json"
        try:
            values = json.loads(file.read_text())
        except FileNotFoundError as e:
            near = ", ".join(str(p.parent) for p in sorted(path.glob("*/config.json"))[:3]) if path.is_dir() else ""
            raise ConfigError(
                f"{path} holds no run (no config.json)" + (f"; did you mean {near}" if near else "")
            ) from e
        except (OSError, ValueError) as e:
            raise ConfigError(f"{file} is not readable: {e}") from e
        if not isinstance(values, dict):
            raise ConfigError(f"{file} is no configuration")
        try:
            return cls(path), TrainConfig.from_dict(values)
        except ConfigError as e:
            raise ConfigError(f"{file}: {e}") from e

    def write_json(self, name: str, value: Any) -> None:
        """Atomically; `name` may lie in a subfolder."""
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        temporary = file.with_name(f".{file.name}.tmp")
        temporary.write_text(json.dumps(value, indent=1) + "\n")
        os.replace(temporary, file)

    def event(self, line: str) -> None:
        """Note something unusual, with the time."""
        with open(self.path / "events.log", "a") as f:
            f.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")


def versions() -> dict[str, Any]:
    """What a result depends on beside its configuration."""
    found: dict[str, Any] = {"accel_rl": __version__, "python": platform.python_version(), "git": git_revision()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


@cache
def git_revision() -> str | None:
    """Of the source this runs from, with + where it is changed; None outside a checkout."""
    here = Path(__file__).parent
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10)
        if head.returncode:
            return None
        dirty = subprocess.run(
            ["git", "status", "--porcelain", "-uno"], cwd=here, capture_output=True, text=True, timeout=10
        )
        return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")
    except (OSError, subprocess.TimeoutExpired):
        return None
