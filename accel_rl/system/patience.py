"""Timeouts in this module do not count time in which the waiting process itself was stopped."""

import time
from collections.abc import Callable
from typing import TypeVar

SLICE_S = 1.0

Found = TypeVar("Found")


class Patience:
    """`Patience` is a budget of seconds for waiting for another process.

    While a process is stopped (by Ctrl-Z, a debugger or a job scheduler), the other process was most likely stopped
    too. A time limit therefore counts each call of `spend` for at most SLICE_S seconds.
    """

    def __init__(self, seconds: float):
        self.left = seconds

    def spend(self, wait: Callable[[float], Found]) -> Found:
        """Call wait(seconds), with at most SLICE_S seconds, and return the result of `wait`."""
        began = time.monotonic()
        result = wait(max(0.0, min(self.left, SLICE_S)))
        self.left -= min(time.monotonic() - began, SLICE_S)
        return result

    @property
    def over(self) -> bool:
        return self.left <= 0
