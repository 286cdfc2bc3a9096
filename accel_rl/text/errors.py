"""The two errors that users see, a wrong setting (exit code 2) and a failed run (exit code 1), the format of warnings,
and the exit codes of commands."""

import contextlib
import difflib
import errno
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from accel_rl.processes.process import before_torch
from accel_rl.text.output import open_standard_descriptors, print_text

REPORTED = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG, errno.ENAMETOOLONG),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
    *(errno.EIO, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ESTALE, errno.ENOSYS),
    *(errno.EPERM, errno.EBUSY, errno.ETIMEDOUT),
)
"""The numbers of the OSErrors that are reported in one line: a disk that is full, broken or not writable, a wrong path,
an exceeded limit of ulimit, and a system call that is missing."""
LIMITS = {
    errno.EMFILE: "ulimit -n limits the open files of a process",
    errno.EAGAIN: "ulimit -u, or pids.max of a container, limits processes and threads",
    errno.ENOMEM: "ulimit -v, or the memory of the machine or container, is exhausted",
}

end_process = os._exit  # The original os._exit, which `exits_raised` replaces while a user's code runs


class ConfigError(ValueError):
    """A setting is unknown or impossible. The message is one line with the given value, the allowed values and similar
    names."""


class RunError(RuntimeError):
    """A run could not continue, for example because a worker died with --strict or a disk is full. The message is one
    line."""


def nearest(got: str, allowed: Iterable[str], n: int = 3) -> str:
    """'; nearest: a, b' with the allowed names that are most similar to `got`, ignoring case and the dashes of flags,
    or '' if no name is similar."""
    names, got = {name.lower().lstrip("-"): name for name in allowed}, got.lower().lstrip("-")
    close = difflib.get_close_matches(got, list(names), n=n) or [x for x in names if got and x.startswith(got)][:n]
    return f"; nearest: {', '.join(names[name] for name in close)}" if close else ""


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line. Commands replace warnings.showwarning by `show_warning`."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(message)).removeprefix("WARN: ")  # without Gymnasium's colours
    print_text(f"note: {text}", sys.stderr)


def ended(name: str, run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Return the exit code of a command: 2 for a ConfigError, 1 for a RunError or an error of `REPORTED`, 130 for
    Ctrl-C. An error is printed as one line that begins with `name`."""
    open_standard_descriptors()
    before_torch()
    warnings.showwarning = show_warning
    try:
        os.getcwd()
    except FileNotFoundError:  # Without a current folder, torch cannot be imported.
        return _told(name, "the current folder was removed: change to another one", 2)
    try:
        return run(argv)
    except ConfigError as e:
        return _told(name, " ".join(str(e).split()), 2)
    except RunError as e:
        return _told(name, str(e), 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # In `accel-rl games | head`, `head` may end before `accel-rl`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, RuntimeError, ImportError, MemoryError) as e:
        if not (line := reported(e)):
            raise
        return _told(name, line, 1)


def exit_with(error: RunError) -> NoReturn:
    """Print an error as `accel-rl` does, and end the process immediately, even if its main thread is blocked."""
    with contextlib.suppress(OSError):
        _told("accel-rl", str(error), 1)
    end_process(1)


def reported(error: BaseException) -> str:
    """A line about an OSError whose number is in `REPORTED`, or about a thread, module or array that a limit of the
    system does not allow, or "" for any other error."""
    if isinstance(error, OSError):
        if error.errno not in REPORTED:
            return ""
        file = error.filename2 or error.filename
        limit = LIMITS.get(error.errno)
        return f"{error.strerror}{f': {file}' if file else ''}{f' ({limit})' if limit else ''}"
    text = " ".join(str(error).split())
    if isinstance(error, RuntimeError) and "can't start new thread" in text:
        return f"{text} ({LIMITS[errno.EAGAIN]})"
    lacks_memory = "failed to map segment" in text or os.strerror(errno.ENOMEM) in text
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and lacks_memory):
        return f"{text or os.strerror(errno.ENOMEM)} ({LIMITS[errno.ENOMEM]})"
    return ""


def _told(name: str, line: str, exit_code: int) -> int:
    print_text(line if line.startswith(f"{name} ") else f"{name}: {line}", sys.stderr)
    return exit_code


class _ProcessExit(SystemExit):
    """Raised by `os._exit` within `exits_raised`."""


def exit_call(error: SystemExit) -> str:
    """The text of the call, such as sys.exit(1), that raised an error within `exits_raised`."""
    return f"its code called {'os._exit' if isinstance(error, _ProcessExit) else 'sys.exit'}({error.code!r})"


@contextlib.contextmanager
def exits_raised() -> Iterator[None]:
    """A context in which `os._exit` raises SystemExit, as `sys.exit` does. Processes that are forked within the context
    can still exit."""
    pid, leave = os.getpid(), os._exit

    def refuse(status: int) -> NoReturn:
        if os.getpid() != pid:
            leave(status)
        raise _ProcessExit(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = leave


@contextlib.contextmanager
def no_exit(error: Callable[[str], Exception]) -> Iterator[None]:
    """A context in which a call of `sys.exit` or `os._exit` raises `error` with a description of the call."""
    try:
        with exits_raised():
            yield
    except SystemExit as e:
        raise error(exit_call(e)) from e
