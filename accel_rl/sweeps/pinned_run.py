"""The program with which a sweep starts a run: it pins itself to the slot's cores, and then executes the run's command.

The command-line arguments are PARENT CORES COMMAND ...
"""

import ctypes
import os
import signal
import sys

from accel_rl.processes.child import environment

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    parent, cores, *words = argv
    if sys.platform == "linux":
        # If the sweep dies, the kernel sends SIGTERM to the run, which then saves a checkpoint, also after `execvpe`.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if int(parent) and os.getppid() != int(parent):
        sys.exit(128 + signal.SIGTERM)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [int(c) for c in cores.split(",")])
    if hasattr(os, "SCHED_IDLE") and os.sched_getscheduler(0) == os.SCHED_IDLE:
        set_session_nice(os.getpid(), 19)
    os.execvpe(words[0], words, environment())


def set_session_nice(pid: int, nice: int) -> None:
    """Set the nice value of a process's session: 19 gives the session the lowest share of the cores, and 0 the usual
    share. Linux may group processes by session (autogroup, sched(7)); the idle scheduling class then applies only
    within a session."""
    try:
        with open(f"/proc/{pid}/autogroup", "w") as file:
            file.write(str(nice))
    except OSError:
        pass  # The kernel does not group processes by session.


if __name__ == "__main__":
    main(sys.argv[1:])
