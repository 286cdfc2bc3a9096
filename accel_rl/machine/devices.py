"""A common interface to CPUs and GPUs: the accelerator that torch finds, and its streams, events and graphs."""

import gc
import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from accel_rl.text.notes import say_once

if TYPE_CHECKING:
    import torch


def gpu_type() -> str | None:
    """The type of the machine's GPUs, such as "cuda", or None without GPUs."""
    import torch

    if not torch.accelerator.is_available():
        return None
    result = torch.accelerator.current_accelerator()
    return result.type if result is not None and hasattr(runtime(result), "CUDAGraph") else None


def runtime(device: "torch.device | str") -> Any:
    """The module torch.cuda, or that of another type of GPU. The module contains functions for streams, events, graphs
    and memory."""
    import torch

    return torch.get_device_module(torch.device(device))


STREAMS = 32
_owned: set[tuple[int, int]] = set()  # (device index, stream id) of each stream that has an owner


class HostStream:
    """A stream of the CPU, whose operations run in order on the host."""

    def wait_stream(self, other: object) -> None:
        """Do nothing, because an operation on the CPU is complete before the next one begins."""

    def synchronize(self) -> None: ...


class Device(str):
    """The name of a device, `cpu` or `cuda:0`, with methods for the device's streams, events and memory.

    GPU operations are queued: the host continues while the GPU computes, until the host waits for a result. On the CPU
    the methods for streams and events have no effect.
    """

    def __new__(cls, name: "torch.device | str") -> "Device":
        return super().__new__(cls, str(name))

    @property
    def queues_work(self) -> bool:
        """Whether operations are queued, so that the host continues before they are complete."""
        return self != "cpu"

    @property
    def runtime(self) -> Any:
        """torch's module for streams, events, graphs and memory of the device."""
        return runtime(self)

    def use(self) -> None:
        """Make the device torch's current device, so that operations without an explicit device use no memory of
        another GPU."""
        if self.queues_work:
            self.runtime.set_device(self)

    def stream(self, owner: object) -> Any:
        """A stream that belongs to the object `owner` as long as this object exists. Without owners, two captures or
        two threads could use the same stream by accident, because torch has 32 streams per GPU and returns them in
        turn. If all streams have owners, a stream is shared, and a message is logged once."""
        if not self.queues_work:
            return HostStream()
        if (stream := self._free_stream()) is None:
            gc.collect()  # Frees owners of earlier runs, which reference cycles keep.
            stream = self._free_stream()
        if stream is None:
            say_once(
                f"more than {STREAMS} streams of {self} are in use: some wait for each other, and captures may fail"
            )
            return self.runtime.Stream(self)
        key = stream.device.index, stream.stream_id
        _owned.add(key)
        weakref.finalize(owner, _owned.discard, key).atexit = False
        return stream

    def _free_stream(self) -> Any:
        """A stream of torch's pool that has no owner."""
        streams = (self.runtime.Stream(self) for _ in range(STREAMS))
        return next((s for s in streams if (s.device.index, s.stream_id) not in _owned), None)

    def default_stream(self) -> Any:
        return self.runtime.default_stream(self) if self.queues_work else HostStream()

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """A context in which operations are queued on `stream`."""
        return self.runtime.stream(stream) if self.queues_work else nullcontext()

    def random_state(self) -> "torch.Tensor | None":
        """State of the GPU's default random generator, or None on the CPU."""
        return self.runtime.get_rng_state(self) if self.queues_work else None

    def set_random_state(self, state: "torch.Tensor | None") -> None:
        """Set the state of the GPU's default random generator. On the CPU, do nothing."""
        if self.queues_work:
            self.runtime.set_rng_state(state, self)
