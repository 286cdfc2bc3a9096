"""Whole numbers as people write them: 20000, 1_000_000 or 1e6. The command line reads every whole number so."""

import math

Count = int
OptionalCount = int | None


def parse_count(text: str) -> int:
    """A whole number that may be written 20000, 1_000_000 or 1e6. ValueError."""
    value = float(text)
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{text!r} is no whole number")
    return int(value)
