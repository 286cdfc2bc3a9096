"""The preset `tuned` has the settings that `accel-rl tune` measured to be the fastest for a machine, an algorithm and
an environment. All tuned settings of a user are in one file, accel_rl/tuned.json in the user's configuration folder."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accel_rl.config.advice import run_words, settings_of
from accel_rl.config.flags import with_setting
from accel_rl.config.train import TrainConfig, default_config
from accel_rl.system import hardware
from accel_rl.system.counts import counted
from accel_rl.system.durable_files import write_durably
from accel_rl.system.errors import ConfigError

NAME = "tuned"
_NOT_STORED = ("env.game", "env.id", "algorithm")
_STORED = ("env.", "algo.", "sampler.", "secondary.", "device", "precision", "torch_threads", "capture_updates")


@dataclass(frozen=True)
class Tuned:
    """`Tuned` is the result of one `accel-rl tune`. `settings` are those that the command was given and those that it
    found. `rate` is in env steps/s. `gain` is (median, smallest, largest) of the turns' ratios of the rate to the rate
    of the default placement. `shares` maps each activity of training to its share of the time."""

    machine: str
    algorithm: str
    environment: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rate: float = 0.0
    gain: tuple[float, float, float] = (1.0, 1.0, 1.0)
    shares: Mapping[str, float] = field(default_factory=dict)
    date: str = ""

    @property
    def limit(self) -> str:
        """Return the activity that takes the largest share of the training time, and its share, such as "updates: 71 %
        of the time"."""
        if not self.shares:
            return "not measured"
        part = max(self.shares, key=lambda name: self.shares[name])
        return f"{part}: {100 * self.shares[part]:.0f} % of the time"


def tuned_file() -> Path:
    """Return the path of the file with the user's tuned settings. The file may not exist."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "accel_rl" / "tuned.json"


def machine_name() -> str:
    """Return a text with the number of usable cores, the model of the CPU, and the GPUs of this machine."""
    gpus = hardware.gpu_models() if hardware.gpu_count() else []
    return ", ".join([f"{counted(len(hardware.usable_cores()), 'core')} of {hardware.cpu_name()}", *gpus])


def given_settings(config: TrainConfig) -> dict[str, Any]:
    """Return the settings that differ from the algorithm's defaults and are stored in a preset."""
    default = dict(settings_of(default_config(config.algorithm)))
    return {
        name: value
        for name, value in settings_of(config)
        if name.startswith(_STORED) and name not in _NOT_STORED and value != default.get(name)
    }


def read_tuned() -> list[Tuned]:
    """Read the tuned settings of all machines. Raises ConfigError for a file that is not readable."""
    file = tuned_file()
    try:
        return [Tuned(**{**entry, "gain": tuple(entry["gain"])}) for entry in json.loads(file.read_text())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as e:
        raise ConfigError(f"{file} is no file of tuned settings ({e}): remove it, and run accel-rl tune again") from e


def write_tuned(result: Tuned) -> Path:
    """Write tuned settings in place of earlier ones for the same machine, algorithm and environment, and return the
    file's path. Raises OSError."""

    def key(t: Tuned) -> tuple[str, str, str]:
        return t.machine, t.algorithm, t.environment

    kept = [t for t in read_tuned() if key(t) != key(result)]
    file = tuned_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_durably(file, json.dumps([asdict(t) for t in (*kept, result)], indent=2).encode() + b"\n")
    return file


def find_tuned(algorithm: str, environment: str) -> Tuned | None:
    """Return the tuned settings for an algorithm and an environment on this machine, or None if they were not tuned."""
    matching = [t for t in read_tuned() if (t.algorithm, t.environment) == (algorithm, environment)]
    this_machine = machine_name() if matching else ""
    return next((t for t in matching if t.machine == this_machine), None)


def with_tuned(config: TrainConfig, environment: str) -> TrainConfig:
    """Return the configuration with the tuned settings for its algorithm, an environment and this machine. Raises
    ConfigError if they were not tuned."""
    command = f"accel-rl tune {run_words(config.algorithm, environment)}"
    tuned = find_tuned(config.algorithm, environment)
    if tuned is None:
        others = [t.machine for t in read_tuned() if (t.algorithm, t.environment) == (config.algorithm, environment)]
        if others:
            raise ConfigError(
                f"--preset {NAME}: tuned on {others[-1]}, and this machine has {machine_name()}; run {command} here"
            )
        raise ConfigError(f"--preset {NAME}: {tuned_file()} has no settings for this run; run {command} first")
    for name, value in tuned.settings.items():
        try:
            config = with_setting(config, name, value)
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            raise ConfigError(
                f"--preset {NAME}: {name}={value!r} does not fit this version; run {command} again"
            ) from e
    return config
