"""What a slot starts: a process on the slot's cores, which ends with the sweep, and becomes `accel-rl resume RUN`.

`python -m launch.child PARENT CORES RUN`: a run that has no checkpoint yet begins from its config.json. CORES are in
the slot's order, from which ranks take theirs.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    parent, cores, run = argv
    if sys.platform == "linux":
        # kept over exec; an orderly stop, with a checkpoint
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if int(parent) and os.getppid() != int(parent):
        sys.exit(128 + signal.SIGTERM)
    listed = cores.split(",")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [int(c) for c in listed])
    os.execv(sys.executable, [sys.executable, "-m", "accel_rl", "resume", run, "--cores", *listed])


if __name__ == "__main__":
    main(sys.argv[1:])
