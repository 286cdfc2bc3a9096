"""Measures variants A, B and C in the order A B C A B C ..., so that changes of the machine's speed affect all variants
equally."""

import statistics
import sys
import time
from collections.abc import Callable, Mapping

from accel_rl.metrics.progress import human_time

Measure = Callable[[float], float]
"""A function that measures a rate for the given number of seconds."""
Measurements = dict[str, list[float]]


def in_turns(
    variants: Mapping[str, Measure],
    seconds: float,
    repeats: int,
    unit: str = "env steps/s",
    label: str = "",
    time_s: float = float("inf"),
    after: Callable[[Measurements], object] = lambda measurements: None,
) -> Measurements:
    """Measure all variants one after the other for `seconds`, and repeat this `repeats` times. Return {variant:
    measurements}. After each measurement, a line is printed to stderr, and `after` is called with all measurements so
    far. A repetition begins only if it will probably end within `time_s` seconds."""
    measurements: Measurements = {name: [] for name in variants}
    begin, done, total = time.monotonic(), 0, repeats * len(variants)
    for turn in range(repeats):
        if turn and (time.monotonic() - begin) * (turn + 1) / turn > time_s:
            break
        for name, measure in variants.items():
            measurements[name].append(measure(seconds))
            done += 1
            left = human_time((time.monotonic() - begin) / done * (total - done))
            text = f"{label}{name}: {measurements[name][-1]:,.0f} {unit}"
            print(f"  {done}/{total}  {text}  {left} left", file=sys.stderr, flush=True)
            after(measurements)
    return measurements


def medians(measurements: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in measurements.items() if values}


def ratio(over: list[float], under: list[float]) -> dict[str, float]:
    """Return the ratio of two variants' median rates, and the median, minimum and maximum of the ratios in each
    turn."""
    by_turn = [a / b for a, b in zip(over, under, strict=True)]
    return {
        "of_medians": statistics.median(over) / statistics.median(under),
        "median_by_turn": statistics.median(by_turn),
        "least": min(by_turn),
        "most": max(by_turn),
    }
