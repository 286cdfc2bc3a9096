"""What every part gets, what it returns, and measurements in turns within a part's time."""

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_rl.system.devices import Device, runtime
from benchmarks.gpu.sizes import Sizes

AHEAD = 2
"""Number of calls that the host may be ahead of the GPU, so that a measurement ends soon after its time."""


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
        return max(0.0, self.begun + self.seconds - time.monotonic())

    def synchronize(self) -> None:
        if Device(self.device).queues_work:
            runtime(self.device).synchronize()

    def rate(self, work: Callable[[], float], seconds: float) -> float:
        """Call `work` for so many seconds; returns the sum of what it returns, a second."""
        waiting: deque[Any] = deque()
        self.synchronize()
        n, begin = 0.0, time.perf_counter()
        while True:
            n += work()
            if Device(self.device).queues_work:
                event = runtime(self.device).Event()
                event.record()
                waiting.append(event)
                if len(waiting) > AHEAD:
                    waiting.popleft().synchronize()
            if time.perf_counter() - begin >= seconds:
                break
        self.synchronize()
        return n / (time.perf_counter() - begin)

    def turns(self, parts: Mapping[str, Callable[[float], float]], share: float = 1.0) -> dict[str, list[float]]:
        """Measure the parts in turns, A B C A B C ..., in `share` of the time that is left.

        Each measurement is called with its seconds. At least one turn is made.
        """
        found: dict[str, list[float]] = {name: [] for name in parts}
        available, begin = self.left * share, time.monotonic()
        each = max(self.sizes.shortest, available / (self.sizes.rounds * max(1, len(parts))))
        for turn in range(self.sizes.rounds):
            if turn and (time.monotonic() - begin) * (turn + 1) / turn > available:
                break
            for name, measure in parts.items():
                found[name].append(measure(each))
                print(f"  {name}: {found[name][-1]:,.0f}", file=sys.stderr, flush=True)
        return found


@dataclass(frozen=True)
class Goal:
    """A figure that is to be reached. at_least: else it is to be at most the bound."""

    what: str
    value: float
    bound: float
    at_least: bool = True

    def to_dict(self) -> dict[str, Any]:
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
        return {
            "columns": list(self.columns),
            "rows": self.rows,
            "goals": [g.to_dict() for g in self.goals],
            "notes": self.notes,
            "measurements": self.measurements,
            **({"error": self.error} if self.error else {}),
        }
