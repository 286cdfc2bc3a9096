"""The two errors a user can meet: a setting that is wrong (exit code 2), and a run that failed (exit code 1); notes."""

import difflib
import sys
from collections.abc import Iterable


class ConfigError(ValueError):
    """A setting is unknown or impossible. The message is one line: what was got, what is allowed, the nearest."""


class RunError(RuntimeError):
    """A run could not go on (a worker died under --strict, a disk is full). The message is one line."""


def nearest(got: str, allowed: Iterable[str], n: int = 3) -> str:
    """'; nearest: a, b' for the names closest to `got`, or '' where none is close."""
    close = difflib.get_close_matches(got, list(allowed), n=n, cutoff=0.5)
    return f"; nearest: {', '.join(close)}" if close else ""


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Takes the place of warnings.showwarning in programs: a note is one line."""
    print(f"note: {message}", file=sys.stderr, flush=True)
