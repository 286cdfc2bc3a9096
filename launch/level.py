"""A level of a grid: the values that its runs go through, and what they ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class Level:
    """Values that a grid goes through: of one key, or of several that go together. `names`: theirs in folders.

    `gpus` and `cores`: what the runs at each position ask for, where that is not what the configuration says (`Needs`).
    A synchronous run that leaves `distributed.ranks` unset has a rank on each GPU that it gets.
    """

    values: Mapping[str, Sequence[Any]]
    names: Sequence[str] = ()
    gpus: Sequence[int] = ()
    cores: Sequence[int] = ()

    def positions(self) -> list["Position"]:
        """Build a level with a variant for each value. Raises ConfigError."""
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
    """One step through a level: the value of each key, what a folder's name says of them, and what they ask for."""

    values: Mapping[str, Any]
    labels: Mapping[str, str]
    gpus: int = 0
    cores: int = 0


def _counts(lengths: Mapping[str, int]) -> str:
    return " and ".join(f"{key} has {n} values" for key, n in lengths.items())


def named(value: Any) -> str:
    """A value as a part of a folder's name."""
    if isinstance(value, float):
        text = format(value, "g")
    elif isinstance(value, tuple | list):
        text = "x".join(named(v) for v in value)
    else:
        text = str(value)
    return "".join("_" if c in "/\\:, \t\n" else c for c in text) or "none"
