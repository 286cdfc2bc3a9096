"""Simulated streams and events, whose order is computed by vector clocks, and unfinished copies to the host.

Each stream has a vector clock with one number (epoch) for every other stream: the work of the other stream up to the
epoch in the clock is done before the stream's next operation.
A stream's epoch is incremented whenever another stream or the host may synchronize with the stream.
"""

import itertools
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tests.simulated_device import source_lines, waits
from tests.simulated_device.source_lines import SourceLine

if TYPE_CHECKING:
    from tests.simulated_device.graphs import CUDAGraph

COUNT = 2
POOL = 32
DEVICES = [torch.device("cpu")] * COUNT  # `install` replaces the entries by sim:0 and sim:1.
Clock = dict[int, int]

busy = threading.RLock()
"""A lock that is held while a collective runs, so that threads waiting for the device wait for the collective."""
touched: set[int] = set()
"""The devices on which work was queued, or for which the host has waited, since `reset`.

On a real GPU, each used device would need a context of half a gigabyte.
"""
_lock = threading.RLock()
_all: "weakref.WeakSet[Stream]" = weakref.WeakSet()
# pools of streams by (device, priority)
_pools: dict[tuple[int, int], "tuple[list[Stream], itertools.count[int]]"] = {}
_host: Clock = {}  # The host's vector clock, with all work that the host has waited for.
_numbers = iter(range(1 << 60))


def _join(clock: Clock, other: Clock) -> None:
    for stream, epoch in other.items():
        if clock.get(stream, -1) < epoch:
            clock[stream] = epoch


def index_of(device: Any) -> int:
    """Return the index of a simulated device. None and "sim" are the current device."""
    if device is None:
        return thread.device
    if isinstance(device, int):
        index = device
    else:
        device = torch.device(device)
        if device.type != "sim":
            raise ValueError(f"Expected a sim device, but got: {device}")
        index = thread.device if device.index is None else device.index
    if not 0 <= index < COUNT:
        raise RuntimeError(f"invalid device ordinal: there are {COUNT} simulated devices, but {index} was asked for")
    return index


class Stream:
    """A simulated stream. Operations run immediately, and only their order is simulated.

    As in torch, each device has POOL streams of each priority, and calls of `Stream` return these streams cyclically.
    """

    device_index: int
    priority: int

    def __new__(cls, device: Any = None, priority: int = 0, **_: Any) -> "Stream":
        index = index_of(device)
        with _lock:
            pool, turn = _pools.setdefault((index, priority), ([], itertools.count()))
            touched.add(index)
            if len(pool) < POOL:
                pool.append(cls._begun(index, priority))
            return pool[next(turn) % POOL]

    @classmethod
    def _begun(cls, device: int, priority: int = 0) -> "Stream":
        stream = super().__new__(cls)
        stream.device_index, stream.priority = device, priority
        stream._begin()
        return stream

    def _begin(self) -> None:
        self.stream_id = next(_numbers)
        self.epoch = 0
        self.capture: CUDAGraph | None = None
        # unfinished copies to the host: (epoch, host tensor, values)
        self.copies: deque[tuple[int, Tensor, Tensor]] = deque()
        # Unfinished copies from page-locked memory: (epoch, host tensor, values, source line of the copy)
        self.reads: deque[tuple[int, Tensor, Tensor, SourceLine | None]] = deque()
        with _lock:
            self.clock: Clock = dict(_host)
            _all.add(self)

    @property
    def device(self) -> torch.device:
        return DEVICES[self.device_index]

    @property
    def cuda_stream(self) -> int:
        return self.stream_id

    def is_capturing(self) -> bool:
        return self.capture is not None

    def release(self) -> Clock:
        """Return the vector clock of all work up to now, and begin the stream's next epoch."""
        touched.add(self.device_index)
        with _lock:
            clock = {**self.clock, self.stream_id: self.epoch}
            self.epoch += 1
        return clock

    def record_event(self, event: "Event | None" = None) -> "Event":
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: "Event") -> None:
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        wait_for("Stream.synchronize", self)

    def query(self) -> bool:
        """Whether all work is done. If copies to the host are unfinished, the first call returns False, and the second
        finishes them."""
        if not self.copies:
            return True
        done = getattr(self, "_asked", False)
        self._asked = not done
        if done:
            know(self.release())
        return done

    def __enter__(self) -> "Stream":
        self._before = thread.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        thread.leave(self._before)

    def __repr__(self) -> str:
        return f"<simulated stream {self.stream_id} on {self.device}>"


class Event:
    """A simulated event: a point in a stream's work."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any):
        self.enable_timing = enable_timing
        self.clock: Clock | None = None
        self.capture: CUDAGraph | None = None
        self.device: torch.device | None = None
        self._time, self._asked = 0.0, False

    def record(self, stream: Stream | None = None) -> None:
        stream = current() if stream is None else stream
        self.clock, self.capture, self.device = stream.release(), stream.capture, stream.device
        self._time, self._asked = time.perf_counter(), False

    def wait(self, stream: Stream | None = None) -> None:
        stream = current() if stream is None else stream
        if self.clock is None:
            return
        if self.capture is not None and self.capture.is_capturing:
            self.capture.join(stream)
        elif stream.capture is not None:
            stream.capture.fail("dependency created on uncaptured work in another stream")
        else:
            with _lock:
                _join(stream.clock, self.clock)

    def query(self) -> bool:
        """Whether the work before the event is done. The first call after `record` returns False, and later calls
        return True."""
        if self.clock is None:
            return True
        if not busy.acquire(blocking=False):  # Another thread, which runs a collective, holds the lock.
            return False
        busy.release()
        self._asked, asked = True, self._asked
        if asked:
            know(self.clock)
        return asked

    def synchronize(self) -> None:
        refuse_in_capture()
        waits.count("Event.synchronize")
        with busy:
            pass
        if self.clock is not None:
            know(self.clock)

    def elapsed_time(self, end_event: "Event") -> float:
        """Return the milliseconds between the host's calls of `record` for both events."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        return (end_event._time - self._time) * 1e3


class _Thread(threading.local):
    """The current device and the current streams of a thread."""

    def __init__(self) -> None:
        self.device = 0
        self.streams = list(defaults)
        # torch's backward pass must run in the calling thread, whose current streams it uses.
        torch._C._set_multithreading_enabled(False)

    def enter(self, stream: Stream) -> tuple[int, list[Stream]]:
        """Make the stream the current stream. Returns the argument with which `leave` restores the previous one."""
        before = self.device, list(self.streams)
        self.device = stream.device_index
        self.streams[stream.device_index] = stream
        return before

    def leave(self, before: tuple[int, list[Stream]]) -> None:
        self.device, self.streams = before


captures: "list[CUDAGraph]" = []  # graphs that are being captured now
defaults = [Stream._begun(i) for i in range(COUNT)]
thread = _Thread()


def current(device: Any = None) -> Stream:
    return thread.streams[index_of(device)]


def refuse_in_capture() -> None:
    """Raise RuntimeError if a capture is active that forbids this thread to wait for a GPU."""
    for graph in captures:
        if graph.thread == threading.get_ident() or graph.mode == "global":
            graph.fail("operation not permitted when stream is capturing")


def wait_for(what: str, *streams: Stream) -> None:
    """Count one wait of the host, and finish the work of the given streams."""
    if captures:
        refuse_in_capture()
    waits.count(what)
    for stream in streams:
        know(stream.release())


def know(clock: Clock) -> None:
    """Record that the host has waited for the work in `clock`, which all later work of the host follows."""
    with _lock:
        # Earlier waits of the host are already in the clocks of all streams.
        news = {stream: epoch for stream, epoch in clock.items() if _host.get(stream, -1) < epoch}
        _host.update(news)
        for stream in list(_all):
            _join(stream.clock, news)
            while stream.copies and stream.copies[0][0] <= clock.get(stream.stream_id, -1):
                _, host, values = stream.copies.popleft()
                host.copy_(values)
            while stream.reads and stream.reads[0][0] <= clock.get(stream.stream_id, -1):
                _, host, values, line = stream.reads.popleft()
                if not torch.equal(_bytes(host), _bytes(values)):
                    raise RuntimeError(
                        "page-locked memory was overwritten before the GPU is known to have read it: it is copied by "
                        f"{source_lines.text(line)}"
                    )


def _bytes(x: Tensor) -> Tensor:
    return x.contiguous().view(-1).view(torch.uint8)


def read_later(stream: Stream, host: Tensor) -> None:
    """When the host has waited for the stream's copy from page-locked memory, check that this memory was not
    changed."""
    with _lock:
        stream.reads.append((stream.epoch, host, host.clone(), source_lines.here()))


def copy_later(stream: Stream, host: Tensor, values: Tensor) -> None:
    """Write the values to the host tensor only when the host has waited for this point of the stream."""
    with _lock:
        stream.copies.append((stream.epoch, host, values))


def synchronize(device: Any = None) -> None:
    """Let the host wait for all streams of a device."""
    index = index_of(device)
    touched.add(index)
    wait_for("synchronize", *[s for s in list(_all) if s.device_index == index])


def reset() -> None:
    """Discard unfinished copies and captures, and order all earlier work before all later work."""
    with _lock:
        captures.clear()
        _pools.clear()
        for stream in list(_all):
            stream.capture = None
            stream.copies.clear()
            stream.reads.clear()
            know({stream.stream_id: stream.epoch})
            stream.epoch += 1
    thread.device, thread.streams = 0, list(defaults)
    touched.clear()
