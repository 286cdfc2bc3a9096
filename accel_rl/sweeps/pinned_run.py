"""A sweep starts this module in a slot: the process pins itself to the slot's cores, arranges to end with the sweep,
and executes `accel-rl resume`.

The command-line arguments are PARENT CORES RUN. A run without a checkpoint begins from its config.json. The run's ranks
use the cores in the order of CORES.
"""

import ctypes
import os
import signal
import sys

from accel_rl.system.child import command, environment

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    parent, cores, run = argv
    if sys.platform == "linux":
        # The parent-death signal persists after exec: SIGTERM lets the run save a checkpoint when the sweep dies.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if int(parent) and os.getppid() != int(parent):
        sys.exit(128 + signal.SIGTERM)
    listed = cores.split(",")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [int(c) for c in listed])
    if hasattr(os, "SCHED_IDLE") and os.sched_getscheduler(0) == os.SCHED_IDLE:
        set_session_nice(os.getpid(), 19)
    os.execve(sys.executable, command("accel_rl", "resume", run, "--cores", *listed), environment())


def set_session_nice(pid: int, nice: int) -> None:
    """Set the nice value of a process's session: 19 gives the session the lowest share of the cores, and 0 the usual
    share. Linux may group processes by session (autogroup, sched(7)). With autogroup, Linux applies the idle scheduling
    class only within a session, and divides the cores evenly among sessions with equal nice values."""
    try:
        with open(f"/proc/{pid}/autogroup", "w") as file:
            file.write(str(nice))
    except OSError:
        pass  # The kernel does not group processes by session, so the idle class applies to all processes.


if __name__ == "__main__":
    main(sys.argv[1:])
