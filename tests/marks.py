"""Marks of a test's parameters."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """Return a parameter set that only `pytest -m slow` tests."""
    return pytest.param(*values, marks=pytest.mark.slow)


def slow_unless(is_quick: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Return the values, each a parameter, of which those that are not quick are slow."""
    return [value if is_quick(value) else slow(value) for value in values]
