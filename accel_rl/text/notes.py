"""Messages that this process prints once, for example about a fallback."""

import contextlib
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

_said: set[str] = set()
_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


def say_once(message: str) -> None:
    if (messages := _collected.get()) is not None:
        messages.extend([message] if message not in messages else [])
    elif message not in _said:
        _said.add(message)
        warnings.warn(message, stacklevel=3)


@contextlib.contextmanager
def collected() -> Iterator[list[str]]:
    """A context in which `say_once` adds messages to a list instead of printing them."""
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)
