"""How synchronous ranks find each other: torch's process group, over a file of this machine or torchrun's store."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn  # not later: its functions' defaults hold the group of that moment, and so its threads
from torch.distributed.rendezvous import rendezvous

from accel_rl.system.errors import RunError


def file_store(fd: int, size: int) -> Any:
    """Over an open file that all ranks of this machine have inherited; it needs no name and no port."""
    return dist.FileStore(f"/proc/self/fd/{fd}", size)  # type: ignore[attr-defined]


def environment_store() -> tuple[Any, int, int]:
    """As RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say -> (store, rank, size). RunError."""
    try:
        store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=60)))
    except Exception as e:
        raise RunError(f"the ranks' store does not answer: {' '.join(str(e).split())[:300]}") from e
    # two runs of one store, one after the other, must not read each other's words
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"accel_rl/{restart}", store), rank, size  # type: ignore[attr-defined]


def backend(device: str, gpus: int, ranks: int) -> str:
    """gloo for numbers on the host. Gradients on GPUs: NCCL where each rank has its own (it allows no sharing)."""
    if not device.startswith("cuda") or ranks > gpus or not dist.is_nccl_available():
        return "gloo"
    return "cpu:gloo,cuda:nccl"


@contextmanager
def process_group(store: Any, rank: int, size: int, name: str, device: str, timeout_s: float) -> Iterator[None]:
    """torch's default process group. RunError where not all ranks come."""
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    try:
        dist.init_process_group(
            name, store=dist.PrefixStore("group", store), rank=rank, world_size=size,  # type: ignore[attr-defined]
            timeout=timedelta(seconds=timeout_s),
        )  # fmt: skip
    except (RuntimeError, ValueError) as e:
        raise RunError(f"rank {rank}: not all ranks have come: {' '.join(str(e).split())[:300]}") from e
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def part(store: Any, rank: int, size: int, timeout_s: float) -> None:
    """Return when this rank may end: rank 0, which may hold the store, once no other needs it or timeout_s is over."""
    if rank:
        store.set(f"parted/{rank}", "1")
        return
    with suppress(RuntimeError):  # one that was lost at the very end takes nothing from the run
        store.wait([f"parted/{r}" for r in range(1, size)], timedelta(seconds=timeout_s))


def leave() -> None:
    """Close this rank's connections; nothing may be exchanged any more. Where GPUs exchange something, too, they stay:
    NCCL waits for it."""
    if dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()
