"""What every part gets and what it returns."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.sizes import Sizes
from benchmarks.harness.turns import Measurements, in_turns


@dataclass
class Bench:
    """One part's device, sizes, folder and time."""

    device: str
    sizes: Sizes
    folder: Path
    seconds: float
    game: str = "breakout"
    begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds that are left of the part's time."""
        return max(0.0, self.begun + self.seconds - time.monotonic())

    def turns(self, parts: Mapping[str, Callable[[float], float]], share: float = 1.0) -> Measurements:
        """Measure the parts in turns, in `share` of the time that is left, but at least once.

        Each part is a function of the seconds of its measurement."""
        available = self.left * share
        each = max(self.sizes.shortest, available / (self.sizes.rounds * max(1, len(parts))))
        timed = {name: partial(measure, each) for name, measure in parts.items()}
        return in_turns(timed, self.sizes.rounds, "a second", time_s=available)


@dataclass(frozen=True)
class Goal:
    """A figure that is to be reached. at_least: else it is to be at most the bound."""

    what: str
    value: float
    bound: float
    at_least: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the goal, and whether it is met, as plain JSON."""
        met = self.value >= self.bound if self.at_least else self.value <= self.bound
        return {"what": self.what, "value": self.value, "bound": self.bound, "at_least": self.at_least, "met": met}


@dataclass
class Result:
    """A part's table, goals and notes. measurements: everything that was measured, by name."""

    columns: tuple[str, ...]
    rows: list[list[Any]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    measurements: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "columns": list(self.columns),
            "rows": self.rows,
            "goals": [g.to_dict() for g in self.goals],
            "notes": self.notes,
            "measurements": self.measurements,
            **({"error": self.error} if self.error else {}),
        }
