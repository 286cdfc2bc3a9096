"""A machine described in a file, for plans on paper. TOML or JSON:

cores = 16                    # their number, or a list such as [0, 1, 2]
quota = 12.5                  # cores that the cgroup grants; none: no limit
memory = "128 GiB"            # bytes, or text with a unit
gpus = {number = 1, memory = "80 GiB"}
"""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_rl.system.counts import counted
from accel_rl.system.errors import ConfigError, nearest

UNITS = {"": 1, "B": 1, "MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores, and bytes of memory of the host and of each GPU. quota: cores that the cgroup grants; None: no limit."""

    cores: tuple[int, ...]
    quota: float | None
    memory: int
    gpus: tuple[int, ...]

    def __str__(self) -> str:
        quota = f", of which the cgroup grants {self.quota:g}" if self.quota else ""
        gpus = counted(len(self.gpus), "GPU") if self.gpus else "no GPU"
        each = f" of {self.gpus[0] / 2**30:.0f} GiB" if self.gpus else ""
        return f"{len(self.cores)} cores{quota}, {self.memory / 2**30:.0f} GiB of memory, {gpus}{each}"


def read_machine(path: str | Path) -> Machine:
    """Read the description in a file. ConfigError, one line."""
    try:
        text = Path(path).read_text()
        values = json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text)
    except OSError as e:
        raise ConfigError(f"--machine {path}: {e.strerror}") from e
    except ValueError as e:
        raise ConfigError(f"--machine {path}: no {'JSON' if Path(path).suffix == '.json' else 'TOML'}: {e}") from e
    if not isinstance(values, dict):
        raise ConfigError(f"--machine {path}: must be a table with cores, quota, memory and gpus")
    try:
        return _machine(values)
    except ValueError as e:
        raise ConfigError(f"--machine {path}: {e}") from e


def _machine(values: dict[str, Any]) -> Machine:
    """Raises ValueError."""
    _check_keys(values, ("cores", "quota", "memory", "gpus"), ("cores", "memory"))
    gpus = values.get("gpus", 0)
    if isinstance(gpus, dict):
        _check_keys(gpus, ("number", "memory"), ("number", "memory"), "gpus.")
    elif gpus != 0:
        raise ValueError(f"gpus = {gpus!r}: must be a table with number and memory")
    else:
        gpus = {"number": 0, "memory": 0}
    quota = values.get("quota")
    if quota is not None and (not _is_number(quota) or quota <= 0):
        raise ValueError(f"quota = {quota!r}: must be a number above 0")
    number = gpus["number"]
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"gpus.number = {number!r}: must be a whole number of at least 0")
    each = _bytes("gpus.memory", gpus["memory"]) if number else 0
    return Machine(_cores(values["cores"]), quota, _bytes("memory", values["memory"]), (each,) * number)


def _check_keys(values: dict[str, Any], known: tuple[str, ...], needed: tuple[str, ...], prefix: str = "") -> None:
    for key in values:
        if key not in known:
            raise ValueError(f"unknown key {prefix}{key}: must be of {', '.join(known)}{nearest(key, known)}")
    for key in needed:
        if key not in values:
            raise ValueError(f"{prefix}{key} is missing")


def _cores(value: Any) -> tuple[int, ...]:
    cores = list(range(value)) if isinstance(value, int) and not isinstance(value, bool) else value
    is_list = isinstance(cores, list) and all(isinstance(c, int) and not isinstance(c, bool) for c in cores)
    if not is_list or not cores or min(cores) < 0:
        raise ValueError(f"cores = {value!r}: must be their number, at least 1, or a list of them")
    return tuple(sorted(set(cores)))


def _bytes(name: str, value: Any) -> int:
    if isinstance(value, str) and (found := re.fullmatch(r"\s*([\d._]+)\s*([A-Za-z]*)\s*", value)):
        number, unit = found.groups()
        if unit in UNITS and number.count(".") < 2:
            value = float(number) * UNITS[unit]
    if not _is_number(value) or value <= 0:
        raise ValueError(f"{name} = {value!r}: must be bytes, or text with a unit such as 128 GiB")
    return int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
