"""The arguments (Bench) and the result (Result) of each part of the GPU benchmark."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.sizes import Sizes
from benchmarks.harness.program import Build, CaseResult, rates


@dataclass(frozen=True)
class Goal:
    """A bound for a measured number: a lower bound if `at_least` is true, and otherwise an upper bound."""

    what: str
    value: float
    bound: float
    at_least: bool = True

    def to_dict(self) -> dict[str, Any]:
        met = self.value >= self.bound if self.at_least else self.value <= self.bound
        return asdict(self) | {"met": met}


@dataclass
class Result:
    """The table, goals and notes of one part of the benchmark. `cases` contains all measurements from which the table
    was computed."""

    columns: Sequence[str]
    rows: list[list[Any]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cases: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        goals = [g.to_dict() for g in self.goals]
        values = {"columns": list(self.columns), "rows": self.rows, "goals": goals, "notes": self.notes}
        return values | {"cases": self.cases} | ({"error": self.error} if self.error else {})


@dataclass
class Bench:
    """The device, sizes, folder and time of one part of the benchmark."""

    device: str
    sizes: Sizes
    folder: Path
    seconds: float
    save: Callable[[Result], object] = lambda result: None
    """Writes the measurements made so far to the part's file, which remains if the process is killed."""
    games: str = "some"  # Which games the emulator's tests play: "some" or "all".
    game: str = "breakout"
    begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Return the remaining seconds of this part of the benchmark."""
        return max(0.0, self.begun + self.seconds - time.monotonic())

    def run(self, builds: Sequence[Build], unit: str = "env steps/s") -> Result:
        """Measure all cases. Each case gets an equal share of the remaining time, but at least one measurement of each
        variant. All results so far are saved after each measurement."""
        results: list[CaseResult] = []

        def table(cases: list[CaseResult]) -> Result:
            return Result(*rates(cases, unit), cases=cases)

        for i, build in enumerate(builds):
            end = time.monotonic() + self.left / (len(builds) - i)
            with ExitStack() as stack:
                case = build(stack)
                time_s = max(0.0, end - time.monotonic())
                each = max(self.sizes.shortest, time_s / (self.sizes.rounds * len(case.variants)))
                so_far = lambda measured: self.save(table([*results, measured]))  # noqa: E731
                results.append(case.measure(each, self.sizes.rounds, unit, time_s=time_s, after=so_far))
        return table(results)
