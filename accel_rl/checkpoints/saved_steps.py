"""The env steps at which checkpoints of a run were saved. Lists of runs, such as `accel-rl status`, use this module,
because it does not import torch."""

import json
import re
from pathlib import Path
from typing import Any

from accel_rl.text.errors import ConfigError

FORMAT = "accel_rl model 2"
CHECKPOINT = re.compile(r"\d{12}", re.ASCII)
"""The name of a checkpoint's folder is its number of env steps."""


def checkpoint_steps(folder: Path) -> list[int]:
    """Env steps of all checkpoints in a folder, ascending."""
    if not folder.is_dir():
        return []
    return sorted(int(p.name) for p in folder.iterdir() if CHECKPOINT.fullmatch(p.name) and p.is_dir())


def about_model(folder: Path) -> dict[str, Any]:
    """The content of model.json of an exported model. Raises ConfigError if the file is not readable."""
    file = folder / "model.json"
    try:
        values = dict(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError) as e:
        raise ConfigError(f"{file} is not readable: {' '.join(str(e).split())}") from e
    if values.get("format") != FORMAT:
        raise ConfigError(
            f"{file}: its format is {values.get('format')!r}, and this version of accel_rl reads {FORMAT!r} alone"
        )
    return values
