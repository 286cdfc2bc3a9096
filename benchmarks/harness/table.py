"""Formats tables in Markdown."""

from collections.abc import Sequence
from typing import Any


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return head + [f"| {' | '.join(map(cell, row))} |" for row in rows]


def cell(value: Any) -> str:
    """Format a number with at least three digits, a bool as yes or no, and None as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
