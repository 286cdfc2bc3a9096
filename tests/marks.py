"""Functions that mark parameters of tests as slow."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """Return a set of parameters for slow tests, which run only with `pytest -m slow`."""
    return pytest.param(*values, marks=pytest.mark.slow)


def slow_unless(is_quick: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Return the values as test parameters. Values for which `is_quick` is false are marked slow."""
    return [value if is_quick(value) else slow(value) for value in values]
