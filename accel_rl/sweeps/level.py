"""A level of a grid: its values, and the resources that they ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class Level:
    """Values of one key, or of several keys that change together. names: names of the positions in folder names.

    gpus, cores: numbers that the runs at each position ask for, in place of those of the configuration (`Needs`). A
    synchronous run without `distributed.ranks` has a rank on each GPU that it gets.
    """

    values: Mapping[str, Sequence[Any]]
    names: Sequence[str] = ()
    gpus: Sequence[int] = ()
    cores: Sequence[int] = ()

    def positions(self) -> list["Position"]:
        """Return the positions of the level, in order. Raises ConfigError."""
        lengths = {key: len(values) for key, values in self.values.items()}
        if not lengths or not all(lengths.values()):
            empty = next((key for key, n in lengths.items() if not n), "{}")
            raise ConfigError(f"level {empty!r} is empty: it needs at least one value")
        if len(set(lengths.values())) > 1:
            raise ConfigError(f"keys of one level go together, but {_counts(lengths)}; cross them as two levels")
        n = next(iter(lengths.values()))
        for what in ("names", "gpus", "cores"):
            if (entries := getattr(self, what)) and len(entries) != n:
                raise ConfigError(f"level {', '.join(lengths)}: {len(entries)} {what} for {n} values")
        for what in ("gpus", "cores"):
            for entry in getattr(self, what):
                if isinstance(entry, bool) or not isinstance(entry, int) or entry < 1:
                    raise ConfigError(f"level {', '.join(lengths)}: {what} {entry!r}: must be a whole number from 1 on")
        keys = list(self.values)
        found = []
        for i in range(n):
            value = {key: self.values[key][i] for key in keys}
            label = {"+".join(keys): self.names[i]} if self.names else {key: named(v) for key, v in value.items()}
            gpus, cores = (entries[i] if entries else 0 for entries in (self.gpus, self.cores))
            found.append(Position(value, label, gpus, cores))
        return found


@dataclass(frozen=True)
class Position:
    """One position of a level: the value of each key, its labels in folder names, the GPUs and cores it asks for."""

    values: Mapping[str, Any]
    labels: Mapping[str, str]
    gpus: int = 0
    cores: int = 0


def _counts(lengths: Mapping[str, int]) -> str:
    return " and ".join(f"{key} has {n} values" for key, n in lengths.items())


def named(value: Any) -> str:
    """Format a value for a folder name."""
    if isinstance(value, float):
        text = format(value, "g")
    elif isinstance(value, tuple | list):
        text = "x".join(named(v) for v in value)
    else:
        text = str(value)
    return "".join("_" if c in "/\\:, \t\n" else c for c in text) or "none"
