"""Counts what the host launches on simulated devices: operations outside of captures, copies, and replays of graphs."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulated_device import source_lines

_open: list[Counter[str]] = []
_lock = threading.Lock()


def count(what: str) -> None:
    if not _open:
        return
    key = f"{source_lines.text(source_lines.here())} {what}"
    with _lock:
        for counter in _open:
            counter[key] += 1


@contextmanager
def launching() -> Iterator[Counter[str]]:
    """Yield a Counter of the launches of all threads inside the context, by "file:line what", such as
    "accel_rl/x.py:12 aten::add" or "accel_rl/x.py:13 graph"."""
    counter: Counter[str] = Counter()
    with _lock:
        _open.append(counter)
    try:
        yield counter
    finally:
        with _lock:
            _open[:] = [c for c in _open if c is not counter]
