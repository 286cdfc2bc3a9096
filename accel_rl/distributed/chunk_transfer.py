"""Chunks of parameters are copied between the central parameters, which are in host memory, and a learner's GPU."""

import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from accel_rl.data.page_locked import PageLocked, page_locked_zeros
from accel_rl.data.staging import Staging
from accel_rl.distributed.central import Central
from accel_rl.machine.devices import Device, runtime
from accel_rl.optim.optimizer import Optimizer

PARAMETERS = "parameters"


class ChunkTransfer:
    """Copies chunks of the central parameters from and to a GPU, on a separate CUDA stream. The host
    synchronizes with the GPU once for each chunk that is written to the central parameters.

        own stream      | central copy -> GPU |                  | GPU -> spare copy |
        current stream                        | optimizer's step |
        host            lock                                                   wait | publish, unlock

    The central parameters are in page-locked memory, which the GPU reads and writes directly.
    """

    def __init__(self, central: Central, data: Tensor, parts: Sequence[slice], optimizers: Sequence[Optimizer]):
        """`data` [P] are the parameters on the GPU. `parts` and `optimizers` contain one entry per chunk. Each scalar
        in an optimizer's state must be a count of updates, such as Adam's `steps`, so that the host can compute its new
        value."""
        self._central = central
        self._optimizers = optimizers
        self._device = data.device
        self._runtime = runtime(data.device)
        self._local: list[dict[str, Tensor]] = []
        for part, optimizer in zip(parts, optimizers, strict=True):
            state = {name: x for name, x in optimizer.state_dict().items() if isinstance(x, Tensor)}
            self._local.append({PARAMETERS: data[part], **state})
        self._stream, self._written = Device(self._device).stream(self), self._runtime.Event()
        self._staging = Staging(self._device)
        self._is_finite = page_locked_zeros((1,), torch.bool, self._device)
        locked = PageLocked(central.tensors(), self._device)
        weakref.finalize(self, locked.close).atexit = False  # At exit, the system itself unlocks the pages.

    def pull(self, k: int, parameters: bool = True, state: bool = False, is_held: bool = False) -> None:
        """Copy the central chunk k to the GPU. The caller must hold the chunk's lock. Later operations on the current
        CUDA stream wait for the copy.

        With `is_held`, the caller holds the lock until `push` returns, and the GPU reads the central parameters
        directly. Without `is_held`, the host first copies the chunk, because other ranks may overwrite the chunk later.
        """
        central, values = self._central.read(k)
        local, sources = self._local[k], {PARAMETERS: central} if parameters else {}
        if state:
            sources |= {name: x for name, x in values.items() if isinstance(x, Tensor)}
        now = self._runtime.current_stream(self._device)
        # The copies to the GPU wait for queued GPU operations that read the chunk's old values.
        self._stream.wait_stream(now)
        with self._runtime.stream(self._stream):
            for name, source in sources.items():
                if is_held:
                    local[name].copy_(source, non_blocking=True)
                else:
                    self._staging.copy(local[name], source)
        now.wait_stream(self._stream)
        for name, x in values.items() if state else ():
            if not isinstance(x, Tensor):
                setattr(self._optimizers[k], name, int(x))

    def push(self, k: int, updates: int, is_finite: Tensor | None = None) -> bool:
        """Write chunk k from the GPU to the central parameters, as a version with `updates` new updates. The caller
        must hold the chunk's lock, and the GPU's chunk must be based on the central chunk's current version.

        The chunk is written if `is_finite`, [] bool on the GPU, is true or None. Return whether the chunk was written.
        """
        spare = self._central.spare(k)
        self._stream.wait_stream(self._runtime.current_stream(self._device))
        with self._runtime.stream(self._stream):
            for name, x in self._local[k].items():
                spare[name].copy_(x, non_blocking=True)
            if is_finite is not None:
                self._is_finite.copy_(is_finite.view(1), non_blocking=True)
            self._written.record(self._stream)
        self._written.synchronize()
        if is_finite is not None and not self._is_finite:
            return False
        _, state = self._central.read(k)
        counts = {name: x + updates for name, x in state.items() if not isinstance(x, Tensor)}
        self._central.publish_spare(k, counts, updates)
        return True
