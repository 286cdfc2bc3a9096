"""A command returns an exit code, and prints one line on stderr if the command fails."""

import errno
import os
import sys
import warnings
from collections.abc import Callable

from accel_rl.system.errors import ConfigError, RunError, show_warning
from accel_rl.system.output import open_standard_descriptors
from accel_rl.system.process import before_torch

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)


def ended(name: str, run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command, and return its exit code: 2 for a ConfigError, 1 for a RunError or a disk that cannot be written,
    130 for Ctrl-C. An error is printed as one line that begins with `name`."""
    open_standard_descriptors()
    before_torch()
    warnings.showwarning = show_warning
    try:
        return run(argv)
    except ConfigError as e:
        return _told(name, " ".join(str(e).split()), 2)
    except RunError as e:
        return _told(name, str(e), 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # The reader of the pipe has ended, as in `accel-rl games | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as e:
        if e.errno not in NO_ROOM:
            raise
        return _told(name, f"{e.strerror}: {e.filename or 'the run folder'}", 1)


def _told(name: str, line: str, exit_code: int) -> int:
    print(f"{name}: {line}", file=sys.stderr)
    return exit_code
