"""Events of a run or a sweep: modules log them, and one handler writes them to events.log.

logger = logging.getLogger(__name__)
logger.warning("the evaluator died: the evaluation is played again")   # to events.log and to the display
logger.info("inference is not captured: ...")                           # to events.log
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class EventHandler(logging.Handler):
    """Passes each message of this package's loggers, as one line, to `write`, or to `warn` if it is a warning."""

    def __init__(self, write: Callable[[str], None], warn: Callable[[str], None]):
        super().__init__(logging.INFO)
        self._write = write
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        write = self._warn if record.levelno >= logging.WARNING else self._write
        write(record.getMessage())


@contextmanager
def written(write: Callable[[str], None], warn: Callable[[str], None]) -> Iterator[None]:
    """Context manager in which the package's log messages are written: warnings by `warn`, to events.log and the
    display; other messages by `write`, to events.log. Outside of this context, Python prints warnings to stderr and
    drops other messages."""
    logger, handler = logging.getLogger("accel_rl"), EventHandler(write, warn)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
