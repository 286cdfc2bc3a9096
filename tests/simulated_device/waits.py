"""Counts of everything by which the host waits for a simulated GPU."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulated_device import source_lines

waits: Counter[str] = Counter()
"""Number of waits by "file:line what", such as "accel_rl/x.py:12 item", since the last `reset`."""

_open: list[Counter[str]] = []
_lock = threading.Lock()


def count(what: str) -> None:
    key = f"{source_lines.text(source_lines.here())} {what}"
    with _lock:
        for counter in (waits, *_open):
            counter[key] += 1


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Yield a Counter of the waits of all threads inside the context, by "file:line what"."""
    counter: Counter[str] = Counter()
    with _lock:
        _open.append(counter)
    try:
        yield counter
    finally:
        with _lock:
            _open[:] = [c for c in _open if c is not counter]
