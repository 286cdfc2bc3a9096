"""Measurements in turns, A B C A B C ..., so that changes of the machine's speed affect all of them."""

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from accel_rl.metrics.progress import human_time, terminal

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """Progress over all measurements: a bar on a terminal, elsewhere a line each, on stderr."""

    def __init__(self, total: int, unit: str = "env steps/s"):
        self._unit = unit
        self._total, self._done, self._began = total, 0, time.monotonic()
        self._bar: Progress | None = None
        if console := terminal():
            from rich import progress as rich

            columns = (
                rich.TextColumn("{task.description}"),
                rich.BarColumn(None),
                rich.MofNCompleteColumn(),
                rich.TimeRemainingColumn(),
            )
            self._bar = rich.Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task("", total=total)
            self._bar.start()

    def step(self, label: str, value: float) -> None:
        self._done += 1
        text = f"{label} {value:,.0f} {self._unit}"
        if self._bar:
            self._bar.update(self._task, advance=1, description=text)
        else:
            left = (time.monotonic() - self._began) / self._done * (self._total - self._done)
            print(f"  {self._done}/{self._total}  {text}  {human_time(left)} left", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._bar:
            self._bar.stop()


def interleave(
    parts: Mapping[str, Callable[[], float]], repeats: int, bar: Bar, prefix: str = ""
) -> dict[str, list[float]]:
    """Measure the parts in turns, `repeats` times each; returns {name: its measurements, in order}."""
    found: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(repeats):
        for name, measure in parts.items():
            found[name].append(measure())
            bar.step(prefix + name, found[name][-1])
    return found


def medians(measurements: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in measurements.items() if values}


def ratio(over: list[float], under: list[float]) -> dict[str, float]:
    """Ratio of the medians, and the median of the ratios turn by turn."""
    by_turn = [a / b for a, b in zip(over, under, strict=True)]
    return {
        "of_medians": statistics.median(over) / statistics.median(under),
        "median_by_turn": statistics.median(by_turn),
        "least": min(by_turn),
        "most": max(by_turn),
    }
