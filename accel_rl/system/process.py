"""Process-wide settings for the speed of torch on a CPU. Call `before_torch` before importing torch."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3


def before_torch() -> None:
    """Set two environment variables before torch is loaded: waiting OpenMP threads spin only briefly, and freed memory
    is kept.

    Spinning: the action server shares its cores with the workers. A thread that spins at a barrier for a long time
    keeps a worker, or the thread that it waits for, off the core. A thread that sleeps immediately must be woken for
    every operation of a network, which makes two threads slower than one at a batch of 32. Memory: by default glibc
    maps and unmaps every large activation, and the page faults take longer than the small convolutions.
    """
    if "torch" not in sys.modules:
        # Threads spin for about 0.1 ms, the time between two operations.
        os.environ.setdefault("GOMP_SPINCOUNT", "6000")
    if os.environ.get("LD_PRELOAD", "").find("malloc") >= 0:
        return  # Another allocator is in use.
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # Windows raises TypeError, because it has no library of all symbols.
        return  # The C library is not glibc. The setting only affects speed.
    mallopt(_M_MMAP_THRESHOLD, 2**30)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_M_TOP_PAD, 64 * 2**20)


def die_with_parent(parent_pid: int) -> None:
    """The kernel kills this process when its parent dies; if that has happened already, leave now."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)


VECTOR_FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "erf", "erfc", "erfinv", "lgamma", "trunc", "floor", "ceil", "round"),
)


def tune_torch(threads: int) -> None:
    """Set the number of intra-op threads, treat denormal numbers as zero (they take a hundred times as long), and call
    every vector function once in a single thread.

    MKL chooses the kernel of a function at its first call. If several threads make this call at the same time, one of
    them may use a kernel with half of the digits (pytorch/pytorch issue 188792), and a run then begins with other noise
    than its repetitions.
    """
    import torch

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    for dtype in (torch.float32, torch.float64):
        one = torch.full((1,), 0.5, dtype=dtype)
        for name in VECTOR_FUNCTIONS:
            getattr(torch, name)(one)
