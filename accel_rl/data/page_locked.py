"""Locks pages of host memory, which a GPU can then read and write asynchronously."""

import ctypes
import functools
import math
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from accel_rl.machine.devices import Device
from accel_rl.text.notes import say_once

PAGE = 4096
PORTABLE = 1  # CU_MEMHOSTREGISTER_PORTABLE locks the memory for every GPU, not only for the current GPU.
NO_CONTEXT = 3, 201


class PageLocks(Protocol):
    def register(self, address: int, size: int) -> int:
        """Lock `size` bytes from `address` on, which must be the beginning of a page. Return CUDA's error code, which
        is 0 for success."""

    def unregister(self, address: int) -> int:
        """Return CUDA's error code."""


class _Driver:
    """Locks pages through CUDA's driver API. CUDA's runtime API is not used, because torch would raise a failure of its
    `cudaHostRegister` again at the next kernel launch."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def register(self, address: int, size: int) -> int:
        arguments = ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_uint(PORTABLE)
        error = int(self._library.cuMemHostRegister_v2(*arguments))
        if error in NO_CONTEXT:  # Create the thread's CUDA context, if it is missing.
            torch.cuda.current_stream().synchronize()
            error = int(self._library.cuMemHostRegister_v2(*arguments))
        return error

    def unregister(self, address: int) -> int:
        return int(self._library.cuMemHostUnregister(ctypes.c_void_p(address)))


@functools.cache
def _driver() -> _Driver:
    return _Driver()


def page_locks(module: Any) -> PageLocks:
    """A `_Driver` for CUDA, or otherwise the GPU's runtime module (`system.devices.runtime`)."""
    locks: PageLocks = module.page_locks() if hasattr(module, "page_locks") else _driver()
    return locks


def whole_pages(tensors: Iterable[Tensor]) -> list[tuple[int, int]]:
    """(address, number of bytes) of the pages that contain the tensors. Adjacent pages are merged, and no page appears
    twice."""
    pieces: list[tuple[int, int]] = []
    for begin, end in sorted((x.data_ptr(), x.data_ptr() + x.nbytes) for x in tensors if x.nbytes):
        begin, end = begin // PAGE * PAGE, -(-end // PAGE) * PAGE
        if pieces and begin <= pieces[-1][0] + pieces[-1][1]:
            start, size = pieces.pop()
            begin, end = start, max(end, start + size)
        pieces.append((begin, end - begin))
    return pieces


class PageLocked:
    """Pages of host tensors are locked until `close`, so that copies from and to a GPU are asynchronous. If the system
    does not allow page locks, copies are slower, and a message is logged once."""

    def __init__(self, tensors: Iterable[Tensor], device: torch.device | str):
        """`device` is the GPU from and to which data is copied. Data can also be copied from and to other GPUs, but
        locking uses no memory of other GPUs."""
        module = Device(device).runtime
        self._locks = page_locks(module)
        self._locked: list[int] = []
        for address, size in whole_pages(tensors):
            with module.device(device):  # In a new thread, CUDA's current GPU would be the first GPU.
                error = self._locks.register(address, size)
            if error:
                say_once(
                    f"{size / 2**20:.0f} MiB of host memory could not be page-locked (CUDA error {error}; see "
                    "ulimit -l): copies to the GPU are slower"
                )
            else:
                self._locked.append(address)

    def close(self) -> None:
        """Unlock the pages. `close` must be called before the memory is freed."""
        while self._locked:
            self._locks.unregister(self._locked.pop())


def page_locked_zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Return a tensor of zeros in page-locked memory, which is unlocked when the tensor is freed. `device` is the GPU
    from and to which data is copied."""
    size = math.prod(shape) * dtype.itemsize
    memory = torch.zeros(-(-size // PAGE) * PAGE + PAGE, dtype=torch.uint8)
    begin = -memory.data_ptr() % PAGE  # The memory begins on a new page, because no page can be locked twice.
    tensor = memory[begin : begin + size].view(dtype).view(shape)
    locked = PageLocked([tensor], device)
    # At exit, the system itself unlocks the pages.
    weakref.finalize(tensor, locked.close).atexit = False
    return tensor
