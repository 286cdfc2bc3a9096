"""The module `torch.sim`, which is for the device type "sim" what torch.cuda is for CUDA."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.simulated_device import generators, memory, streams
from tests.simulated_device.graphs import CUDAGraph, graph, graph_pool_handle
from tests.simulated_device.streams import Event, Stream, synchronize

__all__ = ["CUDAGraph", "Event", "Stream", "graph", "graph_pool_handle", "synchronize"]

OutOfMemoryError = torch.OutOfMemoryError
is_present = [False]
default_generators = generators.defaults


def is_available() -> bool:
    return is_present[0]


def device_count() -> int:
    return streams.COUNT if is_present[0] else 0


def is_initialized() -> bool:
    return True


def init() -> None:
    pass


def _lazy_init() -> None:
    pass


def _is_in_bad_fork() -> bool:
    return False


# -- devices, streams ------------------------------------------------------------


def current_device() -> int:
    return streams.thread.device


def set_device(device: Any) -> None:
    streams.thread.device = streams.index_of(device)


class device:
    """A context manager that makes a device the current device. The context manager has no effect for None or a
    negative index."""

    def __init__(self, device: Any) -> None:
        is_none = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if is_none else streams.index_of(device)

    def __enter__(self) -> None:
        self._before = streams.thread.device
        if self.idx >= 0:
            streams.thread.device = self.idx

    def __exit__(self, *_: object) -> None:
        streams.thread.device = self._before


def current_stream(device: Any = None) -> Stream:
    return streams.current(device)


def default_stream(device: Any = None) -> Stream:
    return streams.defaults[streams.index_of(device)]


def set_stream(stream: Stream) -> None:
    streams.thread.enter(stream)


class stream:
    """A context manager that makes a stream the current stream. With None, the context manager has no effect."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before = streams.thread.enter(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            streams.thread.leave(self._before)


StreamContext = stream


def is_current_stream_capturing() -> bool:
    return streams.current().capture is not None


# -- memory ------------------------------------------------------------


def mem_get_info(device: Any = None) -> tuple[int, int]:
    return memory.page_locks.cudaMemGetInfo(device)


def memory_allocated(device: Any = None) -> int:
    return memory.allocated[streams.index_of(device)]


def max_memory_allocated(device: Any = None) -> int:
    return memory.peak[streams.index_of(device)]


memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    index = streams.index_of(device)
    memory.peak[index] = memory.allocated[index]


def empty_cache() -> None:
    pass


def page_locks() -> memory.PageLocks:
    return memory.page_locks


# -- properties ------------------------------------------------------------


def get_device_name(device: Any = None) -> str:
    return "Simulated GPU"


def get_device_properties(device: Any = None) -> Any:
    streams.index_of(device)
    return SimpleNamespace(
        name=get_device_name(),
        total_memory=memory.TOTAL,
        multi_processor_count=16,
        major=9,
        minor=0,
        is_integrated=False,
    )


def get_device_capability(device: Any = None) -> tuple[int, int]:
    return 9, 0


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def utilization(device: Any = None) -> int:
    return 0


# -- random numbers ------------------------------------------------------------


def manual_seed(seed: int) -> None:
    default_generators[current_device()].manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    for generator in default_generators:
        generator.manual_seed(seed)


def get_rng_state(device: Any = "sim") -> Tensor:
    return default_generators[streams.index_of(device)].get_state()


def set_rng_state(new_state: Tensor, device: Any = "sim") -> None:
    default_generators[streams.index_of(device)].set_state(new_state)


# -- profiling ------------------------------------------------------------


def range_push(message: str) -> int:
    return 0


def range_pop() -> int:
    return 0


nvtx = SimpleNamespace(range_push=range_push, range_pop=range_pop, mark=lambda message: None)
