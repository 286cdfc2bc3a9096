"""torch.distributed's collectives on tensors of a simulated device."""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tests.simulated_device import streams

LOST = "ACCEL_RL_TEST_LOST"
_on_device = [False]
_lost: list[int] = []


@contextmanager
def collectives_on_device() -> Iterator[None]:
    """Let collectives in the context behave like NCCL's: the host does not wait for them, and graphs capture them.

    Outside the context, collectives behave like gloo's, which copy data through the host.
    Captured collectives also run during the capture, so that all ranks must capture at the same time.
    """
    _on_device[0] = True
    try:
        yield
    finally:
        _on_device[0] = False


def stay_on_device() -> None:
    """Let collectives behave like NCCL's until this process ends. torch then reports NCCL as the simulated devices'
    backend.

    If the environment variable LOST is "rank signal n", the rank sends itself the signal in its n-th collective.
    """
    import torch.distributed as dist

    _on_device[0] = True
    _lost[:] = map(int, os.environ.get(LOST, "").split())
    dist.get_backend_config = lambda group=None: "cpu:gloo,sim:nccl"


def is_collective(name: str) -> bool:
    return name.startswith("c10d::")


def wait() -> str | None:
    """Return a description of how the host waits for a collective, or None if it does not wait."""
    return None if _on_device[0] else "collective through the host"


def finished(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a collective operation that returns only when it is done.

    As with NCCL, if another rank is dead or hangs, a collective never ends, and no signal ends the wait.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if not _on_device[0]:
            out = func(*args, **kwargs)
            out[1].wait()
            return out
        with streams.busy:
            _be_lost()
            try:
                out = func(*args, **kwargs)
                out[1].wait()
            except RuntimeError:
                _wait_for_ever()
        return out

    return call


def _be_lost() -> None:
    import torch.distributed as dist

    if _lost and dist.get_rank() == _lost[0]:
        _lost[2] -= 1
        if _lost[2] == 0:
            os.kill(os.getpid(), _lost[1])


def _wait_for_ever() -> NoReturn:
    """Wait for ever, as CUDA's driver does. Other Python threads continue, but signal handlers do not run."""
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    for _ in range(2):
        libc.pthread_mutex_lock(mutex)
    raise AssertionError
