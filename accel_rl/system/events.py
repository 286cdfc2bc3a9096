"""Modules log the events of a run or a sweep, and one handler writes the events to events.log.

`logger.warning` writes a message to events.log and to the display, and `logger.info` writes only to events.log.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class EventHandler(logging.Handler):
    """`EventHandler` is a logging handler that passes each message of accel_rl's loggers, as one line, to `write`, or
    to `warn` if the message is a warning."""

    def __init__(self, write: Callable[[str], None], warn: Callable[[str], None]):
        super().__init__(logging.INFO)
        self._write = write
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        write = self._warn if record.levelno >= logging.WARNING else self._write
        write(record.getMessage())


@contextmanager
def written(write: Callable[[str], None], warn: Callable[[str], None]) -> Iterator[None]:
    """Return a context manager in which `warn` writes accel_rl's log warnings (to events.log and the display), and
    `write` writes its other log messages (to events.log). Outside of the context, Python prints log warnings to stderr
    and drops other log messages."""
    logger, handler = logging.getLogger("accel_rl"), EventHandler(write, warn)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
