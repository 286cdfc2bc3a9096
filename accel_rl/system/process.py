"""Sets process-wide options that make torch fast on a CPU. Call `before_torch` before importing torch."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3


def before_torch() -> None:
    """Set two environment variables before torch is loaded: one limits how long waiting OpenMP threads spin, and one
    lets glibc reuse freed memory.

    The action server shares its cores with the workers, so a thread that spins at a barrier for a long time keeps a
    worker off its core. A thread that sleeps immediately must be woken for every operation of a network, which makes
    two threads slower than one at a batch of 32. By default glibc maps and unmaps memory for every large activation,
    and the page faults take longer than the small convolutions.
    """
    if "torch" not in sys.modules:
        # OpenMP threads spin for about 0.1 ms, the time between two operations.
        os.environ.setdefault("GOMP_SPINCOUNT", "6000")
    if os.environ.get("LD_PRELOAD", "").find("malloc") >= 0:
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    # Windows has no library of all symbols, so CDLL(None) raises TypeError.
    except (AttributeError, OSError, TypeError):
        return  # With another C library than glibc, only the speed suffers.
    mallopt(_M_MMAP_THRESHOLD, 2**30)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_M_TOP_PAD, 64 * 2**20)


def die_with_parent(parent_pid: int) -> None:
    """Let the kernel kill this process when its parent dies, and exit now if the parent has died already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)


VECTOR_FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "erf", "erfc", "erfinv", "lgamma", "trunc", "floor", "ceil", "round"),
)


def tune_torch(threads: int) -> None:
    """Set the number of intra-op threads, flush denormal numbers to zero (they take a hundred times as long), and call
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
