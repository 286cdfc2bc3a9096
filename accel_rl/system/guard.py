"""A guard kills the processes that environments start, however the run ends.

Environments of users may start programs, fork, or start daemons. Such processes inherit an environment variable, the
mark, by which they are found in /proc. The guard is a process of its own, because the main process may be killed:

    guard = Guard()                              a worker process is started with guard.variables("0")
    guard.kill("0")                              the processes that the worker's environments started are killed
    guard.close()                                all marked processes are killed
"""

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

VARIABLE = "ACCEL_RL_MARK"
KILL_S = 5.0  # Killed processes must end within KILL_S seconds.


class Guard:
    """A `Guard` kills all processes with its mark when it is closed or when this process ends."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)
        self._process = subprocess.Popen(
            # The guard needs only the standard library. Signals to the process group do not reach the guard.
            [sys.executable, "-I", "-S", os.path.abspath(__file__), f"{self._mark}-", str(os.getpid())],
            stdin=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != VARIABLE},
            start_new_session=True,
            cwd="/",
        )

    def variables(self, name: str) -> dict[str, str]:
        """Return the environment variable of a process whose descendants are killed by `kill(name)`."""
        return {VARIABLE: f"{self._mark}-{name}-"}

    def kill(self, name: str) -> None:
        """Kill the descendants of the process `name`, and the process itself."""
        kill_marked(f"{self._mark}-{name}-")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def children_killed() -> Iterator[None]:
    """Context manager in which programs that this process starts are marked. They are killed at its end."""
    mark, before = secrets.token_hex(8), os.environ.get(VARIABLE)
    os.environ[VARIABLE] = mark
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
        kill_marked(mark)


def kill_marked(mark: str) -> None:
    """Kill all processes whose mark begins with `mark`, also those that they start meanwhile."""
    deadline = time.monotonic() + KILL_S
    while _kill_once(f"{VARIABLE}={mark}".encode()) and time.monotonic() < deadline:
        time.sleep(0.01)


def _kill_once(text: bytes) -> bool:
    """Kill the processes whose environment variables contain a text, and return whether there were any."""
    killed = False
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # The process has ended, or is another user's.
            process = os.pidfd_open(int(name))  # A pidfd never means a later process of the same number.
            try:
                with open(f"/proc/{name}/environ", "rb") as f:
                    variables = f.read().split(b"\0")
                if any(variable.startswith(text) for variable in variables):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    killed = True
            finally:
                os.close(process)
    return killed


def main(mark: str, parent: str) -> None:
    """Wait until the process `parent` closes the guard's standard input or ends, and kill the marked processes."""
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, signal.SIG_IGN)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    with contextlib.suppress(OSError):  # Without pidfds, the end of the standard input is the end of the parent.
        poll.register(os.pidfd_open(int(parent)), select.POLLIN)
    if os.getppid() == int(parent):
        poll.poll()
    kill_marked(mark)


if __name__ == "__main__":
    main(*sys.argv[1:])
