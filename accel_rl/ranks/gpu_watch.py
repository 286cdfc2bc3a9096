"""A thread ends this process if its GPU waits forever for another rank.

If a rank dies or hangs in a captured update, NCCL's kernels on the other ranks' GPUs never end. torch's watchdog does
not track captured collectives, and Python handles no signal while its main thread waits for the GPU.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from accel_rl.machine.devices import runtime
from accel_rl.machine.usage import LOOK_S, Stall


@contextmanager
def watched(device: torch.device | str, timeout_s: float, hangs: Callable[[], None]) -> Iterator[None]:
    """A context manager in which a thread calls `hangs` if work that was queued on a GPU's default stream is not
    completed within `timeout_s` seconds."""
    gpu, ended = runtime(device), threading.Event()

    def watch() -> None:
        done, completed = gpu.Event(), 0  # `query` returns True for an event that was never recorded.
        stall = Stall(lambda: completed)
        with gpu.device(device):
            while not ended.wait(LOOK_S):
                if done.query():
                    completed += 1
                    done.record(gpu.default_stream(device))
                if stall.look() > timeout_s:
                    hangs()
                    return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
