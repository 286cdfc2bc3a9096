"""Counts of events on simulated devices by source line and kind, such as "accel_rl/x.py:12 item"."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulated_device import source_lines


class Counts:
    """Adds events of all threads to the counters of the open `counting` contexts, and to the counters in `always`."""

    def __init__(self, *always: Counter[str]) -> None:
        self._open = list(always)
        self._lock = threading.Lock()

    def count(self, what: str) -> None:
        if not self._open:
            return
        key = f"{source_lines.text(source_lines.here())} {what}"
        with self._lock:
            for counter in self._open:
                counter[key] += 1

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Yield a Counter of all threads' events during the context."""
        counter: Counter[str] = Counter()
        with self._lock:
            self._open.append(counter)
        try:
            yield counter
        finally:
            with self._lock:
                self._open[:] = [c for c in self._open if c is not counter]
