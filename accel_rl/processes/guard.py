"""A guard kills the processes that environments have started, however the run ends.

Environments of users may start programs, fork, or start daemons. All processes that an environment starts inherit an
environment variable, the mark, by which the guard finds the processes in /proc. The guard is a separate process,
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
YOUNG_S = 1.0  # A new process loads its program within YOUNG_S seconds.


class Guard:
    """Kills all processes with its mark when it is closed or when this process ends."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)
        self._process = subprocess.Popen(
            # The guard imports only the standard library.
            # The guard has its own session, so that signals to the process group do not reach it.
            [sys.executable, "-I", "-S", os.path.abspath(__file__), f"{self._mark}-", str(os.getpid())],
            stdin=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != VARIABLE},
            start_new_session=True,
            cwd="/",
        )

    def variables(self, name: str) -> dict[str, str]:
        """The variable with which a process must be started, so that `kill(name)` kills the process and its
        descendants."""
        return {VARIABLE: f"{self._mark}-{name}-"}

    def kill(self, name: str) -> None:
        """Kill the process that was started with `variables(name)` and its descendants."""
        kill_marked(f"{self._mark}-{name}-")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def children_killed() -> Iterator[None]:
    """A context at whose end the programs that this process has started are killed."""
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
    """Kill all marked processes, including processes that they start in the meantime."""
    deadline = time.monotonic() + KILL_S
    while _kill_once(f"{VARIABLE}={mark}".encode()) and time.monotonic() < deadline:
        time.sleep(0.01)


def _kill_once(text: bytes) -> bool:
    """Kill the processes with an entry in their environment that begins with `text`. Return whether the search must be
    repeated: a process was killed, or a new process has not loaded its program yet, so that its environment is
    unknown."""
    again = False
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # The process may have ended, or belong to another user.
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
    with contextlib.suppress(OSError):  # Without pidfds, only the end of the standard input is polled.
        poll.register(os.pidfd_open(int(parent)), select.POLLIN)
    if os.getppid() == int(parent):
        poll.poll()
    kill_marked(mark)


if __name__ == "__main__":
    main(*sys.argv[1:])
