"""Whole numbers as users write them: 20000, 1_000_000 or 1e6 on the command line; and numbers with a noun: 1 core, 2
cores."""

import math

Count = int
OptionalCount = int | None


def parse_count(text: str) -> int:
    """Return a whole number, which may be written 20000, 1_000_000 or 1e6. ValueError."""
    value = float(text)
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{text!r} is no whole number")
    return int(value)


def counted(n: float, thing: str) -> str:
    """Format a number of things: 1 core, 2 cores, 0.5 cores, 1,000 cores."""
    number = f"{n:,.0f}" if n == int(n) else f"{n:g}"
    return f"{number} {thing}{'s' * (n != 1)}"
