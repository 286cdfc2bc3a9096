"""Memory in huge pages, for fast random reads."""

import contextlib
import math
import mmap

import torch
from torch import Tensor


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Allocate a tensor of zeros, with all of its memory mapped now and not during the run.

    On the host it uses huge pages if the system grants them, so that random reads miss the TLB less often. OSError or
    MemoryError if there is not enough memory.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    n = math.prod(shape)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    memory = mmap.mmap(-1, max(1, n * dtype.itemsize), **private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # kernel without huge pages: use ordinary pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype, count=n).view(shape).zero_()
