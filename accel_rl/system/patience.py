"""Timeouts of somebody who may have been asleep."""

import time
from collections.abc import Callable
from typing import TypeVar

SLICE_S = 1.0

Found = TypeVar("Found")


class Patience:
    """So many seconds of waiting for others.

    While this process was stopped itself (Ctrl-Z, a debugger, a scheduler that suspends jobs) it did not wait, and
    those whom it waits for were most likely stopped with it: each wait counts for at most a second.
    """

    def __init__(self, seconds: float):
        self.left = seconds

    def spend(self, wait: Callable[[float], Found]) -> Found:
        """wait(seconds at most) -> what it found."""
        began = time.monotonic()
        found = wait(max(0.0, min(self.left, SLICE_S)))
        self.left -= min(time.monotonic() - began, SLICE_S)
        return found

    @property
    def over(self) -> bool:
        return self.left <= 0
