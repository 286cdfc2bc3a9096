"""Page-locked host memory: a GPU copies from and to it asynchronously."""

import math
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from accel_rl.system.hardware import say_once

PAGE = 4096


def whole_pages(tensors: Iterable[Tensor]) -> list[tuple[int, int]]:
    """(address, bytes) of the pages that the tensors lie in, adjacent ones merged, no page twice."""
    pieces: list[tuple[int, int]] = []
    for begin, end in sorted((x.data_ptr(), x.data_ptr() + x.nbytes) for x in tensors if x.nbytes):
        begin, end = begin // PAGE * PAGE, -(-end // PAGE) * PAGE
        if pieces and begin <= pieces[-1][0] + pieces[-1][1]:
            start, size = pieces.pop()
            begin, end = start, max(end, start + size)
        pieces.append((begin, end - begin))
    return pieces


class PageLocked:
    """Contiguous host tensors whose pages are locked until `close`, so that copies from and to a GPU are asynchronous.

    If the system does not allow it, copies are slower; a message says so once.
    """

    def __init__(self, tensors: Iterable[Tensor], runtime: Any = None):
        """runtime: torch.cuda.cudart(), if None."""
        self._runtime = torch.cuda.cudart() if runtime is None else runtime
        self._locked: list[int] = []
        for address, size in whole_pages(tensors):
            error = int(self._runtime.cudaHostRegister(address, size, 0))
            if error:
                say_once(
                    f"{size / 2**20:.0f} MiB of host memory could not be page-locked (CUDA error {error}; see "
                    "ulimit -l): copies to the GPU are slower"
                )
            else:
                self._locked.append(address)

    def close(self) -> None:
        """Unlock the pages; call it before the memory is freed."""
        while self._locked:
            self._runtime.cudaHostUnregister(self._locked.pop())


def page_locked_zeros(shape: tuple[int, ...], dtype: torch.dtype, runtime: Any) -> Tensor:
    """Allocate zeros in page-locked host memory; it is unlocked when the tensor is freed. runtime: of the GPU."""
    size = math.prod(shape) * dtype.itemsize
    memory = torch.zeros(-(-size // PAGE) * PAGE + PAGE, dtype=torch.uint8)
    begin = -memory.data_ptr() % PAGE  # on pages of its own: no page can be locked twice
    tensor = memory[begin : begin + size].view(dtype).view(shape)
    locked = PageLocked([tensor], runtime.cudart())
    weakref.finalize(tensor, locked.close).atexit = False  # at exit the process frees the memory
    return tensor
