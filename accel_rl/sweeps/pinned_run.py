"""A sweep starts each run as a process of this module, which pins itself to the slot's cores, and then executes
`accel-rl resume`.

The command-line arguments are PARENT CORES RUN. The run's ranks use the cores in the order of CORES. The run is started
with --trust, because the sweep has written the run's settings or checked them (SweepFolder.config).
"""

import ctypes
import os
import signal
import sys

from accel_rl.processes.child import command, environment

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    parent, cores, run = argv
    if sys.platform == "linux":
        # If the sweep dies, the kernel sends SIGTERM to the run, which saves a checkpoint. This setting survives exec.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if int(parent) and os.getppid() != int(parent):
        sys.exit(128 + signal.SIGTERM)
    listed = cores.split(",")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [int(c) for c in listed])
    if hasattr(os, "SCHED_IDLE") and os.sched_getscheduler(0) == os.SCHED_IDLE:
        set_session_nice(os.getpid(), 19)
    os.execve(sys.executable, command("accel_rl", "resume", run, "--trust", "--cores", *listed), environment())


def set_session_nice(pid: int, nice: int) -> None:
    """Set the nice value of a process's session: 19 gives the session the lowest share of the cores, and 0 the usual
    share. Linux may group processes by session (autogroup, sched(7)), and then applies the idle scheduling class only
    within a session."""
    try:
        with open(f"/proc/{pid}/autogroup", "w") as file:
            file.write(str(nice))
    except OSError:
        pass  # The kernel does not group processes by session.


if __name__ == "__main__":
    main(sys.argv[1:])
