"""`Staging` copies data from the host to a GPU, without making the host wait."""

import weakref

import torch
from torch import Tensor

from accel_rl.data.page_locked import PAGE, PageLocked
from accel_rl.machine.devices import Device

MOST = 32
"""Maximum number of unfinished copies. When MOST copies are unfinished, `Staging` waits for one, so that rare delays of
the GPU do not increase page-locked memory."""


class _Slot:
    """`size` bytes of page-locked host memory. `event` is set when the last copy from the buffer is complete."""

    def __init__(self, size: int, device: torch.device):
        memory = torch.empty(size + PAGE, dtype=torch.uint8)
        # No two slots share a page, because a page can be locked only once.
        begin = -memory.data_ptr() % PAGE
        self.memory = memory[begin : begin + size]
        self.event = Device(device).runtime.Event()
        self.locked = PageLocked([self.memory], device)

    def close(self) -> None:
        self.event.synchronize()
        self.locked.close()


class Staging:
    """Copies host tensors to a GPU asynchronously, through buffers of page-locked memory (slots).

    After a copy is started, the caller may change or free the host tensor immediately. A slot is reused after its copy
    is complete. If all slots are in use, a new slot is allocated, but from MOST slots on, `Staging` waits until a copy
    is complete. `Staging` is not thread-safe, and cannot be used within a CUDA graph.
    """

    def __init__(self, device: torch.device | str):
        self.device = torch.device(device)
        self._slots: list[_Slot] = []
        # The slots are not freed at exit, when the CUDA runtime may already be unloaded.
        weakref.finalize(self, _close, self._slots).atexit = False

    def put(self, host: Tensor) -> Tensor:
        """A copy [...] of the tensor on the device, or the tensor itself if the device is the CPU."""
        if not Device(self.device).queues_work:
            return host
        copy = torch.empty(host.shape, dtype=host.dtype, device=self.device)
        self.copy(copy, host)
        return copy

    def copy(self, target: Tensor, host: Tensor) -> None:
        """`target` [...] is contiguous, and may have another dtype than `host` [...]."""
        if not Device(self.device).queues_work or not host.numel():
            target.copy_(host)
            return
        slot = self._slot(host.numel() * target.element_size())
        staged = slot.memory[: host.numel() * target.element_size()].view(target.dtype).view(host.shape)
        staged.copy_(host)
        target.copy_(staged, non_blocking=True)
        slot.event.record(Device(self.device).runtime.current_stream(self.device))

    def _slot(self, size: int) -> _Slot:
        """The smallest free slot that is large enough, or a new slot if none is free."""
        fitting = [slot for slot in self._slots if len(slot.memory) >= size]
        for slot in sorted(fitting, key=lambda slot: len(slot.memory)):
            if slot.event.query():
                return slot
        if len(fitting) >= MOST:
            fitting[0].event.synchronize()
            self._slots.append(self._slots.pop(self._slots.index(fitting[0])))
            return fitting[0]
        # Slot sizes are powers of two, so that tensors of similar sizes share slots.
        self._slots.append(_Slot(max(PAGE, 1 << (size - 1).bit_length()), self.device))
        return self._slots[-1]


def _close(slots: list[_Slot]) -> None:
    for slot in slots:
        slot.close()
