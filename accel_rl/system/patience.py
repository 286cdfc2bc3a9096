"""Timeouts that do not count time in which the process itself was stopped."""

import time
from collections.abc import Callable
from typing import TypeVar

SLICE_S = 1.0

Found = TypeVar("Found")


class Patience:
    """A budget of seconds for waiting.

    A process that is stopped (Ctrl-Z, a debugger, a scheduler that suspends jobs) does not wait, and the awaited
    processes were most likely stopped at the same time. So each wait counts for at most a second.
    """

    def __init__(self, seconds: float):
        self.left = seconds

    def spend(self, wait: Callable[[float], Found]) -> Found:
        """Call wait(seconds), with at most SLICE_S seconds, and return its result."""
        began = time.monotonic()
        result = wait(max(0.0, min(self.left, SLICE_S)))
        self.left -= min(time.monotonic() - began, SLICE_S)
        return result

    @property
    def over(self) -> bool:
        return self.left <= 0
