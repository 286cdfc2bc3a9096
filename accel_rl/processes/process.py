"""Process-wide options that make torch fast on a CPU, and a time limit for waiting for another process."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TypeVar

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
SLICE_S = 1.0

Result = TypeVar("Result")


def before_torch() -> None:
    """Limit how long waiting OpenMP threads spin, keep NumPy from starting threads, and make glibc reuse freed memory.
    `before_torch` must be called before torch is imported.

    The action server shares its cores with the workers, so a thread that spins at a barrier for a long time keeps a
    worker off its core. A thread that sleeps immediately must be woken for every operation of a network, which makes
    two threads slower than one at a batch of 32. By default glibc maps and unmaps memory for every large activation,
    and the page faults take longer than the small convolutions.
    """
    if "torch" not in sys.modules:
        # OpenMP threads spin for about 0.1 ms, the time between two operations.
        os.environ.setdefault("GOMP_SPINCOUNT", "6000")
        # NumPy's import would start OpenBLAS threads, which this project does not use. If OpenBLAS cannot start one of
        # these threads, it sends SIGINT to the process. At the end of the process, OpenBLAS then waits for the missing
        # thread's number, which may be that of a torch thread that never ends.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if os.environ.get("LD_PRELOAD", "").find("malloc") >= 0:
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    # On Windows, CDLL(None) raises TypeError.
    except (AttributeError, OSError, TypeError):
        return  # Other C libraries than glibc lack `mallopt`, which only affects the speed.
    mallopt(_M_MMAP_THRESHOLD, 2**30)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_M_TOP_PAD, 64 * 2**20)


def die_with_parent(parent_pid: int, number: int = signal.SIGKILL) -> None:
    """The kernel sends the signal `number` to this process when its parent dies. If the parent has already died, exit
    now."""
    if not watch_parent(parent_pid, number):
        os._exit(0)


def watch_parent(parent_pid: int, number: int) -> bool:
    """The kernel sends the signal `number` to this process when its parent dies. Return whether the parent lives."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent_pid


VECTOR_FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "erf", "erfc", "erfinv", "lgamma", "trunc", "floor", "ceil", "round"),
)


def tune_torch(threads: int) -> None:
    """Set the number of intra-op threads, flush denormal numbers (which take a hundred times as long) to zero, and call
    every vector function once in a single thread.

    MKL chooses the implementation of a vector function at the function's first call. If several threads make the first
    call at the same time, one thread may use an implementation with half of the digits (pytorch/pytorch issue 188792),
    and runs are then not reproducible.
    """
    import torch

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    for dtype in (torch.float32, torch.float64):
        one = torch.full((1,), 0.5, dtype=dtype)
        for name in VECTOR_FUNCTIONS:
            getattr(torch, name)(one)


STOP_PATIENCE_S = 5.0
"""Longest wait for another process after a stop request. Containers are killed 10 s after SIGTERM, and jobs of Slurm
30 s."""
_stop: list[object] = []
"""The stop requests of this process (`training/signals.py`) that are being obeyed."""


def obey_stop(request: object) -> None:
    """Limit this process's waits for other processes to STOP_PATIENCE_S until `stop_obeyed` is called."""
    _stop.append(request)


def stop_obeyed(request: object) -> None:
    while request in _stop:
        _stop.remove(request)


def patience_s(timeout_s: float) -> float:
    """`timeout_s`, but at most STOP_PATIENCE_S after a stop request."""
    return min(timeout_s, STOP_PATIENCE_S) if _stop else timeout_s


class Patience:
    """A budget of seconds for waiting for another process.

    If the waiting process is stopped (by Ctrl-Z, a debugger or a job scheduler), the other process is most likely
    stopped too. Each call of `spend` therefore counts for at most SLICE_S seconds.
    """

    def __init__(self, seconds: float):
        self.left = seconds

    def spend(self, wait: Callable[[float], Result]) -> Result:
        """Call `wait` with a time limit of at most SLICE_S seconds, and subtract the time of the call from the
        budget."""
        began = time.monotonic()
        result = wait(max(0.0, min(self.left, SLICE_S)))
        self.left -= min(time.monotonic() - began, SLICE_S)
        return result

    @property
    def over(self) -> bool:
        return self.left <= 0
