"""Process-wide settings for the speed of torch on a CPU. Call `before_torch` before importing torch."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def before_torch() -> None:
    """Waiting OpenMP threads spin for a moment and then sleep, and freed memory stays with the process.

    Spinning: the action server shares its cores with the workers, and a thread that spins for long at a barrier keeps a
    worker, or the thread it waits for, off the core; one that sleeps at once is woken for every operation of a network,
    which makes two threads slower than one at a batch of 32. Memory: glibc maps and unmaps every large activation anew,
    and the page faults then cost more than the small convolutions themselves.
    """
    if "torch" not in sys.modules:
        os.environ.setdefault("GOMP_SPINCOUNT", "6000")  # about 0.1 ms: from one operation to the next
    if os.environ.get("LD_PRELOAD", "").find("malloc") >= 0:
        return  # another allocator is in charge
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # TypeError: Windows has no library of all symbols
        return  # not glibc: nothing to set, nothing lost but speed
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
    """Number of intra-op threads, no denormal numbers (they cost a hundred times an ordinary one), and every function
    of a vector called once by one thread.

    The last: MKL chooses a function's kernel at its first call, and where several threads make that call at once, one
    may get half of the digits for its part (pytorch/pytorch issue 188792). Now and then a run under load began with
    other noise than its equals.
    """
    import torch

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    for dtype in (torch.float32, torch.float64):
        one = torch.full((1,), 0.5, dtype=dtype)
        for name in VECTOR_FUNCTIONS:
            getattr(torch, name)(one)
