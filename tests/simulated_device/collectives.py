"""Collectives of torch's process groups on tensors of a simulated device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_on_device = [False]


@contextmanager
def collectives_on_device() -> Iterator[None]:
    """Inside, collectives behave as NCCL's: the host does not wait for them, and graphs capture them. Outside, they
    behave as gloo's: they go through the host.

    A collective that is captured also runs at once, so that all ranks have to capture it together.
    """
    _on_device[0] = True
    try:
        yield
    finally:
        _on_device[0] = False


def is_collective(name: str) -> bool:
    return name.startswith("c10d::")


def wait() -> str | None:
    """What the host waits for in a collective."""
    return None if _on_device[0] else "collective through the host"


def finished(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return the operation, which then returns when the collective is done."""

    def call(*args: Any, **kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        out[1].wait()
        return out

    return call
