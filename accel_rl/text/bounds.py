"""Bounds of numbers are part of a field's type: `gamma: Share = 0.99`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints


@dataclass(frozen=True)
class Bound:
    """A number `x` is in bounds if `holds(x)`. The text `allowed` completes the sentence "must be ..."."""

    allowed: str
    holds: Callable[[float], bool]


Share = Annotated[float, Bound("between 0 and 1", lambda x: 0 <= x <= 1)]
BelowOne = Annotated[float, Bound("at least 0 and below 1", lambda x: 0 <= x < 1)]
Positive = Annotated[float, Bound("above 0", lambda x: 0 < x < math.inf)]
NonNegative = Annotated[float, Bound("0 or more", lambda x: 0 <= x < math.inf)]
PositiveCount = Annotated[int, Bound("at least 1", lambda x: x >= 1)]
TwoOrMore = Annotated[int, Bound("at least 2", lambda x: x >= 2)]
NonNegativeCount = Annotated[int, Bound("0 or more", lambda x: x >= 0)]


@cache
def bounds_of(cls: type) -> dict[str, Bound | None]:
    """{field: bound} of a dataclass, or None for a field without a bound."""
    return {name: _bound(hint) for name, hint in get_type_hints(cls, include_extras=True).items()}


def _bound(hint: Any) -> Bound | None:
    # The type of an optional number is a union.
    metadata = [m for part in (hint, *get_args(hint)) for m in getattr(part, "__metadata__", ())]
    return next((m for m in metadata if isinstance(m, Bound)), None)
