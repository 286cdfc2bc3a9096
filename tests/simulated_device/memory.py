"""Memory of the simulated devices, and page-locked memory of the host."""

import bisect
import threading
from typing import Any

import torch
from torch import Tensor

from tests.simulated_device import source_lines, streams
from tests.simulated_device.source_lines import SourceLine
from tests.simulated_device.streams import COUNT, Stream

TOTAL = 16 << 30  # bytes of each device
allocated, peak = [0] * COUNT, [0] * COUNT
races = [True]  # Whether unordered accesses raise an error.

Access = tuple[Stream, int, SourceLine | None]
"""(stream, epoch of the stream, source line)."""


class Memory:
    """One allocation on a simulated device, shared by all views, and the last accesses of streams."""

    __slots__ = ("__weakref__", "device", "in_parts", "is_graph", "key", "nbytes", "reads", "write")

    def __init__(self, raw: Tensor, device: int, is_graph: bool = False) -> None:
        """`is_graph`: whether the memory belongs to a CUDA graph."""
        storage = raw.untyped_storage()
        self.key, self.nbytes = storage._cdata, storage.nbytes()
        self.device, self.is_graph = device, is_graph
        streams.touched.add(device)
        # Whether streams access different parts of the memory, so that the order of accesses is not checked.
        self.in_parts = False
        self.write: Access | None = None
        self.reads: dict[int, Access] = {}
        if allocated[device] + self.nbytes > TOTAL:
            self.nbytes, wanted = 0, self.nbytes
            free = TOTAL - allocated[device]
            raise torch.OutOfMemoryError(f"sim out of memory. Tried to allocate {wanted} bytes. {free} bytes are free.")
        allocated[device] += self.nbytes
        if allocated[device] > peak[device]:
            peak[device] = allocated[device]

    # `allocated` is an argument, because Python clears this module's names before it deletes the last objects.
    def __del__(self, allocated: list[int] = allocated) -> None:
        allocated[self.device] -= self.nbytes

    def note_read(self, stream: Stream, line: SourceLine | None) -> None:
        """Record a read by a stream. Raises RuntimeError if the stream did not wait for the last write."""
        if self.in_parts:
            return
        write = self.write
        if write is not None and write[0] is not stream and stream.clock.get(write[0].stream_id, -1) < write[1]:
            self._unordered("read", stream, line, "write", write)
        self.reads[stream.stream_id] = stream, stream.epoch, line

    def note_write(self, stream: Stream, line: SourceLine | None) -> None:
        """Record a write by a stream. Raises RuntimeError if the stream did not wait for the last write and all later
        reads."""
        if self.in_parts:
            return
        write, clock = self.write, stream.clock
        if write is not None and write[0] is not stream and clock.get(write[0].stream_id, -1) < write[1]:
            self._unordered("write", stream, line, "write", write)
        if self.reads:
            for read in tuple(self.reads.values()):
                if read[0] is not stream and clock.get(read[0].stream_id, -1) < read[1]:
                    self._unordered("write", stream, line, "read", read)
            self.reads = {}
        self.write = stream, stream.epoch, line

    def _unordered(self, what: str, stream: Stream, line: SourceLine | None, before: str, access: Access) -> None:
        self.write, self.reads = None, {}  # Each race raises one error only.
        raise RuntimeError(
            f"unordered {what} by {source_lines.text(line)} on stream {stream.stream_id} "
            f"after {before} by {source_lines.text(access[2])} on stream {access[0].stream_id}"
        )


class PageLocks:
    """The page-locked parts of the host's memory. Methods return the error codes of CUDA's driver."""

    SUCCESS, INVALID_VALUE, ALREADY_REGISTERED, NOT_REGISTERED = 0, 1, 712, 713

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: list[tuple[int, int]] = []  # sorted, disjoint pairs (first address, end address)

    def register(self, address: int, size: int) -> int:
        streams.touched.add(streams.thread.device)  # As in CUDA, page locking uses the current device.
        if size <= 0:
            return self.INVALID_VALUE
        with self._lock:
            at = bisect.bisect_left(self._parts, (address + size, 0))
            if at and self._parts[at - 1][1] > address:
                return self.ALREADY_REGISTERED
            self._parts.insert(at, (address, address + size))
        return self.SUCCESS

    def unregister(self, address: int) -> int:
        with self._lock:
            found = [p for p in self._parts if p[0] == address]
            if not found:
                return self.NOT_REGISTERED
            self._parts.remove(found[0])
        return self.SUCCESS

    def cudaMemGetInfo(self, device: Any) -> tuple[int, int]:
        index = streams.index_of(device)
        return TOTAL - allocated[index], TOTAL

    def holds(self, host: Tensor) -> bool:
        """Whether the host tensor is completely in page-locked memory."""
        if not host.numel():
            return True
        size = host.element_size()
        begin = host.data_ptr()
        end = begin + size * (1 + sum((n - 1) * s for n, s in zip(host.shape, host.stride(), strict=True)))
        with self._lock:
            at = bisect.bisect_right(self._parts, (begin, 1 << 64)) - 1
            return at >= 0 and self._parts[at][0] <= begin and end <= self._parts[at][1]

    def count(self) -> int:
        return len(self._parts)

    def nbytes(self) -> int:
        return sum(end - begin for begin, end in self._parts)

    def clear(self) -> None:
        self._parts.clear()


page_locks = PageLocks()


recording_pools: set[tuple[int, int]] = set()
"""The memory pools into which a capture allocates. As in torch, the pool of a failed capture remains in recording
mode."""


def _cuda_endAllocateToPool(device: int, pool: tuple[int, int]) -> None:
    """Check that the memory pool is in recording mode. As in torch, the pool of page-locked memory stays in
    recording mode."""
    if pool not in recording_pools:
        raise RuntimeError("endAllocatePool: not currently recording to mempool_id")


def _cuda_releasePool(device: int, pool: tuple[int, int]) -> None:
    pass
