"""A guard kills the processes that environments start, however the run ends.

Environments of users may start programs, fork, or start daemons. The processes that environments start inherit an
environment variable, the mark, by which the guard finds these processes in /proc. The guard is a separate process,
because the main process may be killed:

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
YOUNG_S = 1.0  # A process loads its program within YOUNG_S seconds.


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
    """Return a context manager in which programs that this process starts are marked. At its end, marked programs are
    killed."""
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
    """Kill all processes whose mark begins with `mark`, also processes that they start meanwhile."""
    deadline = time.monotonic() + KILL_S
    while _kill_once(f"{VARIABLE}={mark}".encode()) and time.monotonic() < deadline:
        time.sleep(0.01)


def _kill_once(text: bytes) -> bool:
    """Kill the processes that have an environment variable which begins with a text. Return False if no such process
    exists, and if no process has just begun, whose environment variables are unknown until its program is loaded."""
    again = False
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # An error means that the process has ended, or is another user's.
            process = os.pidfd_open(int(name))  # A pidfd never refers to a later process with the same process id.
            try:
                with open(f"/proc/{name}/environ", "rb") as f:
                    variables = f.read().split(b"\0")
                if any(variable.startswith(text) for variable in variables):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    again = True
                elif variables == [b""]:
                    again = again or _age_s(name) < YOUNG_S
            finally:
                os.close(process)
    return again


def _age_s(pid: str) -> float:
    with open(f"/proc/{pid}/stat") as f:
        state, *fields = f.read().rpartition(")")[2].split()
    began_s = int(fields[18]) / os.sysconf("SC_CLK_TCK")
    return float("inf") if state in "ZX" else time.clock_gettime(time.CLOCK_BOOTTIME) - began_s


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
