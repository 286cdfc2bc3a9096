"""The file config.json of a run has a format version."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accel_rl.metrics.nested import flat
from accel_rl.text.errors import ConfigError

FORMAT = 5
"""Version of config.json. The format version is increased when a setting changes its name or meaning."""


def settings_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without the format version. Raises ConfigError, with a message of one line, if the format version is
    not FORMAT, or if the algorithm or a group has a wrong type."""
    if type(version := values.get("format")) is not int or version != FORMAT:
        raise ConfigError(f"field format is {version!r}: this version of accel_rl reads format {FORMAT} alone")
    for name in ("algorithm", "env", "algo"):  # The types of algorithm, env and algo are checked first.
        if name in values and not isinstance(values[name], str if name == "algorithm" else Mapping):
            kind = "a text" if name == "algorithm" else "a group of settings"
            raise ConfigError(f"--{name} {values[name]!r}: must be {kind}")
    return {name: dict(x) if isinstance(x, Mapping) else x for name, x in values.items() if name != "format"}


def read_file(folder: Path) -> dict[str, Any]:
    """The values of a run's config.json. Raises ConfigError, with a message of one line that names the file."""
    file = folder / "config.json"
    if folder.is_file():
        where = f" {folder.parent}" if (folder.parent / "config.json").exists() else ""
        raise ConfigError(f"{folder} is a file: give the run's folder{where}")
    if not file.exists():
        near = ", ".join(str(p.parent) for p in sorted(folder.glob("*/config.json"))[:3]) if folder.is_dir() else ""
        raise ConfigError(f"{folder} holds no run (no config.json)" + (f"; did you mean {near}" if near else ""))
    return read_json(file)


def read_plain(folder: Path) -> dict[str, Any]:
    """The settings of a run by full names, such as env.game, for lists of runs. Only the types of settings that lists
    of runs need are checked, because a check of all settings would import torch. Raises ConfigError."""
    try:
        result = dict(flat(settings_in(read_file(folder))))
        for name, kind in (("algorithm", str), ("env_steps", int), ("seed", int)):
            if not isinstance(result.get(name), kind):
                raise ConfigError(f"--{name} {result.get(name)!r}: must be of type {kind.__name__}")
    except ConfigError as e:
        raise ConfigError(f"{folder / 'config.json'}: {e}") from e
    return result


def read_json(file: Path) -> dict[str, Any]:
    """Raises ConfigError, with a message of one line that names the file."""
    try:
        values = json.loads(file.read_text())
    # json.loads raises RecursionError for JSON that is nested too deeply.
    except (OSError, ValueError, RecursionError) as e:
        raise ConfigError(f"{file} is not readable: {e}") from e
    if not isinstance(values, dict):
        raise ConfigError(f"{file} is no configuration")
    return values
