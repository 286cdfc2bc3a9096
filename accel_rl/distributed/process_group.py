"""This module forms torch's process group of synchronous ranks, through a local file or torchrun's store."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import psutil
import torch
import torch.distributed as dist

# torch.distributed.nn is imported early, because it keeps a reference to a process group that exists at its import.
import torch.distributed.nn
from torch.distributed.rendezvous import rendezvous

from accel_rl.distributed.patient_store import PatientStore
from accel_rl.machine.devices import Device
from accel_rl.text.errors import RunError

JOIN = timedelta(seconds=60)
"""Time limit for all ranks to connect to torch's store."""


def file_store(fd: int, size: int) -> Any:
    """Open a torch store over a file descriptor that all ranks of this machine have inherited. The store has its own
    copy of the descriptor, so the caller may close fd."""
    # The copy of the descriptor must stay open, because FileStore's destructor opens the descriptor's path again.
    return dist.FileStore(f"/proc/self/fd/{os.dup(fd)}", size)  # type: ignore[attr-defined]


def environment_store(listening: int | None = None) -> Any:
    """Open the store that the environment variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT describe. Raises
    RunError. `listening` is a socket at the master's address and port, on which rank 0
    hosts the store. By default, the store listens on all addresses of rank 0's machine."""
    try:
        if listening is None:
            store, _, _ = next(rendezvous("env://", timeout=JOIN))
        else:
            e = os.environ
            store = dist.TCPStore(  # type: ignore[attr-defined]
                e["MASTER_ADDR"], int(e["MASTER_PORT"]), int(e["WORLD_SIZE"]), True, JOIN, master_listen_fd=listening
            )
    except Exception as e:
        raise RunError(f"the ranks' store does not answer: {' '.join(str(e).split())[:300]}") from e
    # After a restart by torchrun, the ranks use other keys than before the restart.
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"accel_rl/{restart}", store)  # type: ignore[attr-defined]


def choose_interface(host: str, one_machine: bool) -> None:
    """Make gloo use the network interface through which this machine reaches `host`, unless GLOO_SOCKET_IFNAME is set.
    By default, gloo often uses a loopback address, which other machines cannot reach. `host` is a name or address that
    all ranks can reach (MASTER_ADDR). `one_machine` means that all ranks are on this machine."""
    if "GLOO_SOCKET_IFNAME" in os.environ:
        return
    name = _interface_to(host)
    # Other machines cannot reach a loopback address.
    if name is not None and (one_machine or not _is_loopback(name)):
        os.environ["GLOO_SOCKET_IFNAME"] = name


def _interface_to(host: str) -> str | None:
    """The name of the network interface through which this machine reaches a host, or None if there is no
    route."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as s:
            s.connect(address)  # Connecting a UDP socket finds a route without sending data.
            interface = s.getsockname()[0]
    except OSError:
        return None
    result = psutil.net_if_addrs().items()
    return next((name for name, addresses in result if interface in (a.address.split("%")[0] for a in addresses)), None)


def _is_loopback(name: str) -> bool:
    return any(a.address in ("127.0.0.1", "::1") for a in psutil.net_if_addrs()[name])


def backend(device: str, gpus: int, ranks: int) -> str:
    """The backend of collective operations: gloo for CPU tensors, and for CUDA tensors NCCL if each rank has its
    own GPU, and otherwise gloo. Ranks of NCCL cannot share a GPU. `gpus` is the number of GPUs that the `ranks` ranks
    of this machine use."""
    if torch.device(device).type != "cuda" or ranks > gpus or not dist.is_nccl_available():
        return "gloo"
    return "cpu:gloo,cuda:nccl"


@contextmanager
def process_group(store: Any, rank: int, size: int, name: str, device: str, timeout_s: float) -> Iterator[None]:
    """A context manager that forms torch's default process group. Raises RunError if not all ranks join the
    process group."""
    Device(device).use()  # NCCL uses torch's current GPU for barriers and for sending objects.
    try:
        dist.init_process_group(
            name, store=dist.PrefixStore("group", store), rank=rank, world_size=size,  # type: ignore[attr-defined]
            timeout=timedelta(seconds=timeout_s),
        )  # fmt: skip
    except (RuntimeError, ValueError) as e:
        raise RunError(f"rank {rank}: not all ranks have joined: {' '.join(str(e).split())[:300]}") from e
    try:
        yield
    except BaseException:
        leave()
        raise
    if dist.is_initialized():
        dist.destroy_process_group()


def part(store: Any, rank: int, size: int, timeout_s: float) -> None:
    """Wait until this rank can end without disturbing other ranks. Only rank 0, which may host torch's store, waits for
    the other ranks, at most timeout_s."""
    with suppress(RunError):  # A lost rank is ignored, because all ranks have made their last update.
        if rank:
            PatientStore(store, timeout_s).set(f"parted/{rank}", "1")
        else:
            PatientStore(store, timeout_s).wait([f"parted/{r}" for r in range(1, size)], timeout_s)


def leave() -> None:
    """Close the rank's connections to other ranks. Later collective operations of this rank fail. With NCCL, the
    connections stay open, because NCCL would wait for unfinished operations."""
    if dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()
