"""The two errors that users see: a wrong setting (exit code 2) and a failed run (exit code 1); warnings."""

import difflib
import sys
from collections.abc import Iterable


class ConfigError(ValueError):
    """A setting is unknown or impossible. The message is one line: given value, allowed values, similar names."""


class RunError(RuntimeError):
    """A run could not continue (a worker died with --strict, a disk is full). The message is one line."""


def nearest(got: str, allowed: Iterable[str], n: int = 3) -> str:
    """Return '; nearest: a, b' with the names closest to `got` in any case of letters, or '' if none is close."""
    names = {name.lower(): name for name in allowed}
    close = [names[name] for name in difflib.get_close_matches(got.lower(), list(names), n=n, cutoff=0.5)]
    return f"; nearest: {', '.join(close)}" if close else ""


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line. Programs set it as warnings.showwarning."""
    print(f"note: {message}", file=sys.stderr, flush=True)
