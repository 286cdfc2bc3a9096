"""Simulated CUDA graphs, whose operations are captured once and replayed on the same memory.

Operations also run during the capture, because later operations need their results.
At the end of the capture, all overwritten memory is restored.
"""

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.simulated_device import generators, launches, source_lines, streams
from tests.simulated_device.generators import DeviceGenerator, HostGenerator
from tests.simulated_device.memory import Access, Memory, races, recording_pools
from tests.simulated_device.streams import Stream

failing_replays: list[str] = []
"""Errors that a test plants for the next replays. A failed replay leaves the graph and its memory unchanged."""
FAILED = "operation failed due to a previous error during capture"
_NO_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


class CUDAGraph:
    """Has torch.cuda.CUDAGraph's interface."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._generators: list[DeviceGenerator] = []
        self.reset()

    def reset(self) -> None:
        self.is_capturing = self.is_captured = False
        self.thread, self.mode, self._pool = 0, "global", graph_pool_handle()
        self._device = 0
        self._error: str | None = None
        self._streams: list[Stream] = []
        self._operations: list[Callable[[], None]] = []
        self._results: list[Tensor] = []
        self._undo: list[tuple[Tensor, Tensor]] = []
        self._states: list[tuple[DeviceGenerator, Any]] = []
        # The memory outside the graph that the graph's operations access, with the last write to it.
        self._outside: list[tuple[weakref.ref[Memory], Access | None]] = []
        self._own: list[Memory] = []
        self._written: set[int] = set()  # id of outside memory
        self._read: set[int] = set()
        self._seen: dict[int, Memory] = {}

    # -- capture ------------------------------------------------------------

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        stream = streams.current()
        if stream in streams.defaults:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        if self.is_capturing or self.is_captured:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph.")
        if stream.capture is not None:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.reset()
        self._device = stream.device_index
        self._pool = self._pool if pool is None else pool
        if self._pool in recording_pools:
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        recording_pools.add(self._pool)
        self.thread, self.mode, self.is_capturing = threading.get_ident(), capture_error_mode, True
        drawing = (generators.defaults[self._device], *self._generators)
        self._states = [(g, g.snapshot()) for g in drawing]
        self._capturing = {(self._device, g._cdata) for g in drawing}
        generators.capturing.update(self._capturing)
        self.join(stream)
        streams.captures.append(self)

    def capture_end(self) -> None:
        if not self.is_capturing:
            raise RuntimeError("capture_end: the graph is not being captured")
        self._end()
        if self._error is not None:
            error = FAILED if self._error == FAILED else f"{FAILED}: {self._error}"
            self.reset()
            raise RuntimeError(error)  # As in torch, the pool of a failed capture stays in recording mode.
        recording_pools.remove(self._pool)
        generators.capturing.difference_update(self._capturing)
        self.is_captured = True

    def _end(self) -> None:
        self.is_capturing = False
        streams.captures[:] = [g for g in streams.captures if g is not self]
        for stream in self._streams:
            stream.capture = None
        for tensor, before in reversed(self._undo):
            tensor.copy_(before)
        for generator, snapshot in self._states:
            generator.rewind(snapshot)
        for result in self._results:  # Results are undefined before the first replay.
            result.fill_(float("nan") if result.is_floating_point() else 0)
        for memory in self._seen.values():
            if not memory.is_graph:
                self._outside.append((weakref.ref(memory), memory.write))
        self._undo, self._states, self._streams, self._seen = [], [], [], {}

    def join(self, stream: Stream) -> None:
        """Let the graph also capture the operations of `stream`."""
        if stream.capture is not self:
            stream.capture = self
            self._streams.append(stream)

    def fail(self, error: str) -> None:
        """Raise RuntimeError(error). `capture_end` will also raise the error."""
        self._error = error
        raise RuntimeError(error)

    def check_generator(self, generator: HostGenerator) -> None:
        known = [generators.defaults[self._device]._cdata, *(g._cdata for g in self._generators)]
        if generator._cdata not in known:
            self.fail("a generator that is not registered with the graph is used during capture")

    def register_generator_state(self, generator: DeviceGenerator) -> None:
        self._generators.append(generator)

    def before_write(self, tensor: Tensor) -> None:
        """Save the values of a tensor that an operation will overwrite, to restore them at the end of the capture."""
        self._undo.append((tensor, tensor.clone()))

    def owns(self, memory: Memory) -> None:
        """Add memory that an operation of the capture has allocated to the graph."""
        self._own.append(memory)

    def note(self, memory: Memory, is_write: bool) -> None:
        if not memory.is_graph:
            self._seen[id(memory)] = memory
            (self._written if is_write else self._read).add(id(memory))

    def record(self, operation: Callable[[], None], results: list[Tensor] | None = None) -> None:
        """Add an operation to the graph. `results` are the tensors that the operation has allocated."""
        self._operations.append(operation)
        self._results += results or []

    # -- replay ------------------------------------------------------------

    def replay(self) -> None:
        if not self.is_captured:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        # As in CUDA, a replay runs on the graph's device, even if another device is current.
        stream = streams.current(self._device)
        if stream.capture is not None:
            stream.capture.fail("a graph is replayed during capture")
        if failing_replays:
            raise torch.AcceleratorError(failing_replays.pop())
        launches.count("graph")
        self._access(stream)
        autograd, autocast = torch._C._AutoDispatchBelowAutograd(), torch._C._ExcludeDispatchKeyGuard(_NO_AUTOCAST)
        with autograd, autocast:
            for operation in self._operations:
                operation()

    def _access(self, stream: Stream) -> None:
        line = source_lines.here() if races[0] else None
        for found, write in self._outside:
            memory = found()
            if memory is None:
                written = f": {source_lines.text(write[2])} wrote it" if write is not None else ""
                raise RuntimeError(f"a replayed graph uses memory that has been freed since its capture{written}")
            if races[0]:
                if id(memory) in self._written:
                    memory.note_write(stream, line)
                else:
                    memory.note_read(stream, line)
        if races[0]:
            for memory in self._own:
                memory.note_write(stream, line)

    def pool(self) -> Any:
        return self._pool

    def enable_debug_mode(self) -> None:
        pass

    def debug_dump(self, debug_path: str) -> None:
        pass


class graph:
    """A context manager like torch.cuda.graph, which captures the operations in the context."""

    default_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        **_: Any,
    ) -> None:
        self._graph, self._pool, self._mode = cuda_graph, pool, capture_error_mode
        if stream is None:
            if graph.default_stream is None or graph.default_stream.device_index != streams.thread.device:
                graph.default_stream = Stream()
            stream = graph.default_stream
        self._stream = stream

    def __enter__(self) -> None:
        streams.synchronize()
        self._before = streams.thread.enter(self._stream)
        try:
            self._graph.capture_begin(self._pool, self._mode)
        except BaseException:
            streams.thread.leave(self._before)
            raise

    def __exit__(self, *_: object) -> None:
        self._graph.capture_end()  # If capture_end fails, the stream stays current, as in torch.
        streams.thread.leave(self._before)


_pools = iter(range(1, 1 << 60))


def graph_pool_handle() -> tuple[int, int]:
    return (0, next(_pools))
