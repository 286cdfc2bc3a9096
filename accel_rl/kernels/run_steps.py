"""Step after step of a group of environments without Python between them (kernels/src/rounds.h)."""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from accel_rl.kernels import native


def gate() -> AbstractContextManager[Any]:
    """A lock that `rounds` can close, too."""
    module = native.compiled()
    return threading.Lock() if module is None else module.Gate()


def rounds(
    calls: Any,
    gate: AbstractContextManager[Any],
    wires: Sequence[tuple[int, int, int, int]],
    bell: int,
    changes: int,
    as_of: int,
    t: int,
    T: int,
    slot: int,
) -> int:
    """Recorded `calls` at steps t .. T - 1; before each the workers on the `wires` have answered, after it they are
    asked for slot + t. Returns the step that was not taken: T, or less once *changes is not `as_of`."""
    module = native.compiled()
    assert module is not None  # by which they were recorded
    return int(module.rounds(calls, gate, wires, bell, changes, as_of, t, T, slot))
