"""A rank whose GPU waits for another rank forever is ended by a thread.

If a rank dies or hangs in a captured update, NCCL's kernels on the other ranks' GPUs never end. torch's watchdog does
not track captured collectives, and Python handles no signal while its main thread waits for the GPU.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from accel_rl.system.devices import runtime
from accel_rl.system.usage import LOOK_S, Stall


@contextmanager
def watched(device: torch.device | str, timeout_s: float, hangs: Callable[[], None]) -> Iterator[None]:
    """Return a context manager in which a thread calls `hangs` if the work that the default stream of a GPU has at some
    time is not completed for `timeout_s` seconds."""
    gpu, ended = runtime(device), threading.Event()
    probes = [0]

    def probe() -> None:
        """Wait for the GPU again and again. The wait blocks as soon as the GPU hangs."""
        with gpu.device(device):
            while not ended.wait(LOOK_S):
                done = gpu.Event(blocking=True)
                done.record(gpu.default_stream(device))
                done.synchronize()
                probes[0] += 1

    def look() -> None:
        stall = Stall(lambda: probes[0])
        while not ended.wait(LOOK_S):
            if stall.look() > timeout_s:
                hangs()
                return

    for target in (probe, look):
        threading.Thread(target=target, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
