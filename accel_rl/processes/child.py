"""A child process imports accel_rl and its dependencies from the same folders as the parent process.

    subprocess.Popen(command("accel_rl.samplers.workers.worker", "7"), env=environment())

`python -m` searches the current folder first, so a child process in a checkout would import the checkout instead of the
installed accel_rl. A child process that is started with `command` imports the parent's accel_rl, and searches the same
folders in the same order, independently of its current folder, PYTHONPATH and flags. The child process runs this file,
so this file imports only the standard library.
"""

import atexit
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_S = 0.02
CLOSE_S = 5.0

VARIABLE = "ACCEL_RL_IMPORTS"
"""`VARIABLE` is the environment variable that contains the search path and the packages' folders. The child process
removes the variable."""


def command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as `python -m` does, with this interpreter and its flags. The process must be
    started with the environment variables that `environment` returns."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # also used by multiprocessing
    # Without -P, modules in this file's folder would hide top-level modules of the same name.
    safe = [] if sys.flags.safe_path else ["-P"]
    return [sys.executable, *flags, *safe, os.path.abspath(__file__), module, *arguments]


def environment(variables: Mapping[str, str] = os.environ, packages: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment variables of a process of `command`: those in `variables`, and VARIABLE. The process
    imports accel_rl and the `packages` from the same folders as this process."""
    bound = {name: list(sys.modules[name].__path__) for name in ("accel_rl", *packages)}
    imports = {"path": [os.path.abspath(folder) for folder in sys.path], "packages": bound}
    return {**variables, VARIABLE: json.dumps(imports)}


_starters: dict[int, Any] = {}  # {process id: executor of one thread}; a forked process needs its own executor.


def start(command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a child process as `subprocess.Popen` does, from a thread that lives as long as this process.

    The thread must not end, because the kernel sends the child's signal of PR_SET_PDEATHSIG when the thread that
    started the child ends. Stop signals are blocked in the child until it calls `accept_signals`, because a signal to
    the whole process group could kill the child before it has set its signal handlers.
    """
    from concurrent.futures import ThreadPoolExecutor

    if os.getpid() not in _starters:
        block = lambda: signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # noqa: E731
        _starters[os.getpid()] = ThreadPoolExecutor(1, "start", initializer=block)
    process: subprocess.Popen[bytes] = _starters[os.getpid()].submit(subprocess.Popen, command, **options).result()
    return process


def reply_of(module: str, question: str, timeout_s: float) -> tuple[str, int | None]:
    """Run a module with a file descriptor and `question` as its arguments. Return (reply, exit code). The reply is the
    line that the module writes to the descriptor, or "". A child that does not end within timeout_s seconds, or within
    CLOSE_S seconds after its reply, is killed, and the exit code is None."""
    receiving, sending = os.pipe()
    with open(receiving, "rb", buffering=0) as pipe:
        process = start(
            command(module, str(sending), question), env=environment(), pass_fds=[sending], stdin=subprocess.DEVNULL
        )
        os.close(sending)
        try:
            reply, deadline = b"", time.monotonic() + timeout_s
            # The process is polled as well as the pipe, because a program that the process starts may keep the pipe
            # open.
            while not reply.endswith(b"\n") and time.monotonic() < deadline:
                is_ended = process.poll() is not None
                if select.select([pipe], [], [], 0.0 if is_ended else POLL_S)[0]:
                    reply += (more := pipe.read(65536) or b"")
                    is_ended = not more
                if is_ended:
                    break
            with contextlib.suppress(subprocess.TimeoutExpired):
                return reply.decode(), process.wait(CLOSE_S if reply else max(0.0, deadline - time.monotonic()))
            return reply.decode(), None
        finally:
            process.kill()
            process.wait()


def accept_signals() -> None:
    """Unblock the stop signals, which `start` has blocked. Signals that arrived since the process started are delivered
    now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def linked(folder: str) -> str:
    """Create a folder inside `folder` that contains only a link to this accel_rl, and return its path. The path can be
    added to the PYTHONPATH of processes that other programs start."""
    alone = Path(folder) / "python"
    alone.mkdir(exist_ok=True)
    package = alone / "accel_rl"
    if not package.is_symlink():
        package.symlink_to(os.path.abspath(sys.modules["accel_rl"].__path__[0]))
    return str(alone)


class _BoundPackages:
    """Finds packages in given folders, before the search path is used."""

    def __init__(self, folders: dict[str, list[str]]):
        self._folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._folders:
            return None
        folders = self._folders[name]
        file = os.path.join(folders[0], "__init__.py")
        return importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)


def run_program(run: Callable[[], int | None]) -> None:
    """End the process with the exit code that `run` returns or gives to sys.exit.

    Python's own functions for the end of a process are called, but not the destructors of C++ libraries. If a thread of
    torch could not be started (EAGAIN), a destructor waits for a thread with the number that the failed thread would
    have had, which may be a thread that never ends.
    """
    pid, exit_code, leave = os.getpid(), 1, os._exit

    def end() -> None:
        if os.getpid() == pid:  # A process that is forked from this one does not call os._exit.
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(AttributeError, OSError, ValueError):
                    stream.flush()
            leave(exit_code)

    atexit.register(end)  # atexit calls `end` after all functions that are registered later.
    try:
        exit_code = run() or 0
    except SystemExit as e:
        exit_code = e.code if isinstance(e.code, int) else int(e.code is not None)
        raise
    sys.exit(exit_code)


def main() -> None:
    imports = json.loads(os.environ.pop(VARIABLE))
    sys.path[:] = imports["path"]
    sys.meta_path.insert(0, _BoundPackages(imports["packages"]))
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run_program(main)
