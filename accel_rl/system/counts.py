"""Whole numbers as people write them: 20000, 1_000_000 or 1e6."""

import math
from typing import Annotated, Any

from tyro.constructors import PrimitiveConstructorSpec


def parse_count(text: str) -> int:
    """A whole number that may be written 20000, 1_000_000 or 1e6. ValueError."""
    value = float(text)
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{text!r} is no whole number")
    return int(value)


def _count_spec(optional: bool) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda args: None if optional and args[0] == "None" else parse_count(args[0]),
        is_instance=lambda x: isinstance(x, int) or (optional and x is None),
        str_from_instance=lambda x: [str(x)],
    )


Count = Annotated[int, _count_spec(False)]
OptionalCount = Annotated[int | None, _count_spec(True)]
