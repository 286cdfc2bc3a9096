"""Events of a run or a sweep: modules log them, and one handler writes them to events.log.

logger = logging.getLogger(__name__)
logger.info("the evaluator died: the evaluation is played again")
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class EventHandler(logging.Handler):
    """Passes each message of this package's loggers to a function, as one line."""

    def __init__(self, write: Callable[[str], None]):
        super().__init__(logging.INFO)
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        self._write(record.getMessage())


@contextmanager
def written(write: Callable[[str], None]) -> Iterator[None]:
    """Context in which events are written by a function, to events.log and to the display."""
    logger, handler = logging.getLogger("accel_rl"), EventHandler(write)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
