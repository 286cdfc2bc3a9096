"""Defines the two errors that users see, a wrong setting (exit code 2) and a failed run (exit code 1), and the format
of warnings."""

import difflib
import sys
from collections.abc import Iterable


class ConfigError(ValueError):
    """A setting is unknown or impossible. The error message is one line with the given value, the allowed values and
    similar names."""


class RunError(RuntimeError):
    """A `RunError` means that a run could not continue, for example because a worker died with --strict or a disk is
    full. The error message is one line."""


def nearest(got: str, allowed: Iterable[str], n: int = 3) -> str:
    """Return '; nearest: a, b' with the allowed names most similar to `got`, ignoring case, or '' if no name is
    similar."""
    names = {name.lower(): name for name in allowed}
    close = [names[name] for name in difflib.get_close_matches(got.lower(), list(names), n=n, cutoff=0.5)]
    return f"; nearest: {', '.join(close)}" if close else ""


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line; programs assign show_warning to warnings.showwarning."""
    print(f"note: {message}", file=sys.stderr, flush=True)
