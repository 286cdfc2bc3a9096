"""The exit code and the one line on stderr of a command of this folder."""

import sys
import warnings
from collections.abc import Callable

from accel_rl.system.errors import ConfigError, RunError, show_warning
from accel_rl.system.process import before_torch


def ended(name: str, run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command; returns its exit code: 2 for a ConfigError, 1 for a RunError, each told in one line."""
    before_torch()
    warnings.showwarning = show_warning
    try:
        return run(argv)
    except ConfigError as e:
        print(f"{name}: {' '.join(str(e).split())}", file=sys.stderr)
        return 2
    except RunError as e:
        print(f"{name}: {e}", file=sys.stderr)
        return 1
