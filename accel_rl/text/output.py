"""Writes log messages to events.log and to the display. If output to a terminal, a pipe or a log file fails, training
continues.

`logger.warning` writes a message to events.log and to the display, and `logger.info` writes only to events.log.
"""

import contextlib
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


def open_standard_descriptors() -> None:
    """Open /dev/null as each of the descriptors 0, 1 and 2 that is closed. If a standard descriptor stayed closed, the
    next opened file, such as the rollouts' shared memory, would get its number, and a process would print into this
    memory. After this call, stdout and stderr print characters that their encoding lacks as escape sequences."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # `os.open` returns the lowest free number, which is `descriptor`.
            assert opened == descriptor
            os.set_inheritable(descriptor, True)
            if getattr(sys, name) is None:
                setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "") == "strict":
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def escaped(text: str) -> str:
    """Escape a text for the terminal, such as a name in another user's folder: escape sequences, line breaks and other
    unprintable characters become text, such as \\x1b."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def escaped_lines(text: str) -> str:
    """Same as `escaped`, but line breaks are not escaped."""
    return "\n".join(map(escaped, text.split("\n")))


def print_text(text: str = "", file: TextIO | None = None) -> None:
    """Print a text with unprintable characters escaped, because it may contain names from another user's folder."""
    print(escaped_lines(text), file=file or sys.stdout, flush=True)


def help_width() -> int:
    """The width of help texts: that of the terminal, but at least 40 and at most 120 columns."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, 40), 120)


def print_help(text: str) -> None:
    """Wrap each line at `help_width`. Continuation lines are indented as the line's text, or as the second column of a
    list."""
    for line in text.split("\n"):
        indent = " " * min(len(re.match(r" *(\S+ {2,})?", line)[0]), help_width() // 3)  # type: ignore[index]
        wrapped = textwrap.wrap(line, help_width(), subsequent_indent=indent, break_on_hyphens=False)
        print_text("\n".join(wrapped))


class SteadyStream:
    """Wraps a stream. After an error, for example a closed terminal, a pipe whose reader has ended, or a full disk, the
    `SteadyStream` writes to /dev/null instead. All other attributes are those of the wrapped stream."""

    def __init__(self, stream: TextIO, on_error: Callable[[str], None]):
        """`on_error` is called with a line that describes the error."""
        self._stream = stream
        self._on_error = on_error

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)
        self._on_error(f"{self._stream.name} cannot be written ({error.strerror}): continuing without this output")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def steady_output(on_error: Callable[[str], None] = lambda line: None) -> Iterator[None]:
    """A context in which writing to stdout and stderr raises no error."""
    with (
        contextlib.redirect_stdout(SteadyStream(sys.stdout, on_error)),
        contextlib.redirect_stderr(SteadyStream(sys.stderr, on_error)),
    ):
        yield


class EventHandler(logging.Handler):
    """Passes each message of accel_rl's loggers, as one line, to a function: `warn` for warnings, and `write` for other
    messages."""

    def __init__(self, write: Callable[[str], None], warn: Callable[[str], None]):
        super().__init__(logging.INFO)
        self._write = write
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        write = self._warn if record.levelno >= logging.WARNING else self._write
        write(record.getMessage())


@contextmanager
def written(write: Callable[[str], None], warn: Callable[[str], None]) -> Iterator[None]:
    """A context in which accel_rl's log messages are passed to two functions: `warn` receives warnings (for events.log
    and the display), and `write` receives other messages (for events.log). Outside of the context, Python prints log
    warnings to stderr and drops other log messages."""
    logger, handler = logging.getLogger("accel_rl"), EventHandler(write, warn)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
