"""The agents of the suite have names such as suite/ppo-breakout, and their models are in a clone's
experiments/models."""

import os
from pathlib import Path

from accel_rl.settings.registry import SUITE_PREFIX
from accel_rl.text.errors import ConfigError, nearest

SUITE = Path(__file__).parents[2] / "experiments" / "models"  # Only a clone has experiments/models; a wheel does not.


def model_names() -> list[str]:
    """The names of the suite's agents, such as ppo-breakout."""
    return sorted(file.parent.name for file in SUITE.glob("*/model.safetensors"))


def run_path(name: str | os.PathLike[str]) -> Path:
    """`name` is the path of a run or a model, or suite/ALGORITHM-GAME. Raises ConfigError, with a message of one line,
    if the suite has no such agent, or if `name` is neither a text nor a path."""
    if not isinstance(name, str | os.PathLike):
        raise ConfigError(f"{name!r} must be the path of a folder")
    text = os.fspath(name)
    path = Path(text).expanduser()
    if not text.startswith(SUITE_PREFIX) or path.exists():
        return path
    if not SUITE.is_dir():
        raise ConfigError(
            f"{text}: the suite's agents are not installed; they are in experiments/models of the repository: clone "
            "it, and install it from there"
        )
    names = model_names()
    chosen = text.removeprefix(SUITE_PREFIX)
    if chosen not in names:
        allowed = ", ".join(SUITE_PREFIX + x for x in names) or "none yet"
        raise ConfigError(f"{text}: the suite has no such agent{nearest(chosen, names)}; allowed: {allowed}")
    return SUITE / chosen
