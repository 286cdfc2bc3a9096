"""Kills a test that exceeds its time limit (tests/time_limit.py).

    python tests/watchdog.py PID-OF-PYTEST

The program reads lines from its standard input, and imports only the standard library.
"""

import contextlib
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path

MARK = "ACCEL_RL_TESTED_BY"
"""Environment variable of the processes that tests start: the process id of the pytest process."""
LEAST_S = 2.0


def watch(parent: int) -> None:
    """Read a line when a test begins: its deadline, the additional seconds, and its start time (CLOCK_BOOTTIME).

    An empty line marks the end of the test. The watchdog ends with the pytest process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    deadline, more_s, began, is_late = float("inf"), 0.0, 0.0, False
    # The end of input is no sign that pytest has ended, because forks of the pytest process keep the pipe open.
    while os.getppid() == parent:
        if select.select([0], [], [], min(max(0.0, deadline - time.monotonic()), 5.0))[0]:
            if not (lines := os.read(0, 4096).decode().splitlines()):
                return
            deadline, more_s, began = map(float, (lines[-1] or "inf 0 0").split())
            is_late = False
        elif time.monotonic() < deadline:
            continue
        elif not is_late:
            print("\na test exceeds its time limit: its child processes are killed", file=sys.stderr, flush=True)
            for child in started_by(parent, began) - {os.getpid()}:
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            deadline, is_late = deadline + more_s, True
        else:
            print(f"\na test exceeds its time limit: pytest {parent} is killed", file=sys.stderr, flush=True)
            resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0))
            os.kill(parent, signal.SIGABRT)  # pytest prints a traceback.
            deadline += LEAST_S
            signal.signal(signal.SIGALRM, lambda *_: os.kill(parent, signal.SIGKILL))
            signal.alarm(int(LEAST_S))


def started_by(parent: int, began: float) -> set[int]:
    """Return the descendants of a process that started after `began`, including those whose parent has ended."""
    parents, marked, young = {}, set(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid, fields = int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()
            parents[pid] = int(fields[1])
            if int(fields[19]) / os.sysconf("SC_CLK_TCK") >= began - 0.1:
                young.add(pid)
            if f"{MARK}={parent}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                marked.add(pid)
    found = {parent} | marked
    while more := {pid for pid, of in parents.items() if of in found} - found:
        found |= more
    return (found & young) - {parent}


if __name__ == "__main__":
    watch(int(sys.argv[1]))
