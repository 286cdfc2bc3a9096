"""GPU operations are captured once as a CUDA graph, and replayed with one launch instead of one launch per
operation."""

import contextlib
import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from accel_rl.machine.devices import Device, runtime
from accel_rl.text.errors import RunError

Replay = Callable[[], object]

WARM_UP = 2
"""Before a capture, an operation runs `WARM_UP` times on the capture's stream, so that libraries initialise
themselves."""


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A context without garbage collection, because freeing an object during a capture could wait for the GPU and break
    the capture. Garbage is not collected before the capture either, because a collection would take a fifth of a
    second."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_one_at_a_time = threading.Lock()  # Starting a capture would break a capture in another thread.
_failed: list[Any] = []  # The graphs of failed captures are kept, because torch continues to use them.


class CudaGraphs:
    """Captures operations of one GPU. All graphs share the memory for intermediate results. Graphs must therefore be
    replayed one after another, and write their results to memory that was allocated before the capture."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._runtime = device, runtime(device)
        self._stream, self._pool = Device(device).stream(self), self._runtime.graph_pool_handle()

    @contextlib.contextmanager
    def warming_up(self) -> Iterator[None]:
        """A context in which operations run on the CUDA stream of later captures, in order with the operations of the
        current stream."""
        current = self._runtime.current_stream(self._device)
        self._stream.wait_stream(current)
        with self._runtime.stream(self._stream):
            yield
        current.wait_stream(self._stream)

    def capture(self, work: Callable[[], None], generators: Iterable[torch.Generator] = ()) -> Replay:
        """Return a function that replays the GPU operations of `work`. `work` is called once, and its operations are
        recorded but not executed. `generators` are the random generators that `work` uses in addition to the device's
        default generator. Raises RuntimeError if `work` synchronizes with the GPU or copies from the host."""
        graph = self._runtime.CUDAGraph()
        registered = list(generators)
        for generator in registered:
            graph.register_generator_state(generator)
        current = self._runtime.current_stream(self._device)
        self._stream.wait_stream(current)
        try:
            # Other threads may use the GPU during the capture.
            with (
                _one_at_a_time,
                _no_garbage_collection(),
                self._runtime.device(self._device),
                self._runtime.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"),
            ):
                work()
        except RuntimeError as e:
            self._restore(graph, current, registered)
            # If `work` raised an error, torch raises another error at the end of the capture, with `work`'s error as
            # context.
            raise e.__context__ if isinstance(e.__context__, RuntimeError) else e from None
        current.wait_stream(self._stream)

        def replay(used: Callable[[], None] = work) -> None:
            """Replay the graph. The default argument holds references to the tensors that the graph reads."""
            graph.replay()

        return replay

    def _restore(self, failed: Any, current: Any, registered: Sequence[torch.Generator]) -> None:
        """Restore the current stream, the memory pool and the random generators after a failed capture. torch leaves
        the capture's stream current and the pool recording, and torch 2.11 leaves the generators in a state in which
        every further draw fails. Raises RunError if a generator cannot be restored."""
        self._runtime.set_stream(current)
        with contextlib.suppress(RuntimeError):  # Both calls fail if the capture could not begin.
            self._runtime.memory._cuda_endAllocateToPool(self._device.index or 0, self._pool)
            self._runtime.memory._cuda_releasePool(self._device.index or 0, self._pool)
        # torch cannot end the recording of page-locked memory, and calls the failed graph at each later allocation.
        _failed.append(failed)
        self._pool = self._runtime.graph_pool_handle()
        default = self._runtime.default_generators[self._device.index or 0]
        try:
            for generator in (default, *registered):
                fresh = torch.Generator(self._device)
                fresh.set_state(generator.get_state())
                generator.graphsafe_set_state(fresh.graphsafe_get_state())
        except RuntimeError as e:
            raise RunError(
                f"a failed capture has left a random generator of {self._device} unusable ({e}): restart with"
                " --sampler.no-capture and --no-capture-updates"
            ) from e
