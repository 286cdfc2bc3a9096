"""The trained agents of the project's suite are in experiments/models of a checkout, with names
suite/ALGORITHM-GAME."""

import os
from pathlib import Path

from accel_rl.system.errors import ConfigError, nearest

PREFIX = "suite/"
FOLDER = Path(__file__).parents[2] / "experiments" / "models"


def model_names() -> list[str]:
    """Return the names of the suite's agents, such as ppo-breakout."""
    return sorted(file.parent.name for file in FOLDER.glob("*/model.safetensors"))


def run_path(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a run or a model, which is given by its path or as suite/ALGORITHM-GAME. Raises ConfigError,
    with a message of one line, if the suite has no such agent."""
    text = os.fspath(name)
    path = Path(text).expanduser()
    if not text.startswith(PREFIX) or path.exists():
        return path
    if not FOLDER.is_dir():
        raise ConfigError(
            f"{text}: the suite's agents are not installed; they are in experiments/models of the repository: clone "
            "it, and install it from there"
        )
    names = model_names()
    chosen = text.removeprefix(PREFIX)
    if chosen not in names:
        allowed = ", ".join(PREFIX + x for x in names) or "none yet"
        raise ConfigError(f"{text}: the suite has no such agent{nearest(chosen, names)}; allowed: {allowed}")
    return FOLDER / chosen
