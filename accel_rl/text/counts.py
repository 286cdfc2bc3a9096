"""Parses and formats counts. Users write whole numbers as 20000, 1_000_000 or 1e6. Messages contain counts with a noun,
such as 2 cores."""

import contextlib
import math

Count = int
OptionalCount = int | None


def parse_count(text: str) -> int:
    """Parse a whole number such as 20000, 1_000_000 or 1e6. Raises ValueError."""
    with contextlib.suppress(ValueError):
        return int(text)  # A float would round a seed above 2**53.
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{text!r} is no whole number")
    return int(value)


SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_seconds(text: str) -> float:
    """Parse a duration such as 30s, 10m or 1.5h into seconds. Raises ValueError."""
    try:
        seconds = float(text[:-1]) * SECONDS[text[-1:]]
    except (ValueError, KeyError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is no time above 0 such as 30s, 10m or 1.5h")
    return seconds


def counted(n: float, thing: str) -> str:
    """A count with its noun: 1 core, 2 cores, 0.5 cores or 1,000 cores."""
    number = f"{n:,.0f}" if n == int(n) else f"{n:g}"
    return f"{number} {thing}{'s' * (n != 1)}"
