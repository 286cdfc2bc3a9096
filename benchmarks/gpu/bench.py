"""This module defines the arguments and the result of each part of the GPU's qualification."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.sizes import Sizes
from benchmarks.harness.program import Build, rates


@dataclass(frozen=True)
class Goal:
    """A `Goal` is a bound for a measured number: a lower bound if `at_least` is true, and otherwise an upper bound."""

    what: str
    value: float
    bound: float
    at_least: bool = True

    def to_dict(self) -> dict[str, Any]:
        met = self.value >= self.bound if self.at_least else self.value <= self.bound
        return asdict(self) | {"met": met}


@dataclass
class Result:
    """A `Result` has the table, goals and notes of one part of the benchmark. `cases` has the cases that were measured
    in turns."""

    columns: Sequence[str]
    rows: list[list[Any]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cases: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        goals = [g.to_dict() for g in self.goals]
        found = {"columns": list(self.columns), "rows": self.rows, "goals": goals, "notes": self.notes}
        return found | {"cases": self.cases} | ({"error": self.error} if self.error else {})


@dataclass
class Bench:
    """A `Bench` has the device, sizes, folder and time of one part of the benchmark."""

    device: str
    sizes: Sizes
    folder: Path
    seconds: float
    game: str = "breakout"
    begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Return the remaining seconds of this part of the benchmark."""
        return max(0.0, self.begun + self.seconds - time.monotonic())

    def run(self, builds: Sequence[Build], unit: str = "env steps/s") -> Result:
        """Measure cases, each for an equal part of the remaining time, and for at least one turn."""
        found = []
        for i, build in enumerate(builds):
            end = time.monotonic() + self.left / (len(builds) - i)
            with ExitStack() as stack:
                case = build(stack)
                time_s = max(0.0, end - time.monotonic())
                each = max(self.sizes.shortest, time_s / (self.sizes.rounds * len(case.variants)))
                found.append(case.measure(each, self.sizes.rounds, unit, time_s=time_s))
        columns, rows = rates(found, unit)
        return Result(columns, rows, cases=found)
