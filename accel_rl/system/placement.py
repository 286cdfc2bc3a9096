"""Placement of a rank's processes on cores, and division of a machine's cores among its ranks."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from accel_rl.system import hardware
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Placement:
    """Cores and threads of one rank. One worker process for each core."""

    worker_cores: tuple[int | None, ...]  # one entry for each worker process; None: not pinned
    server_cores: tuple[int, ...]  # of the action server and the learner
    torch_threads: int  # of one operation while learning
    device: str
    act_threads: int = (
        1  # of one operation while acting: half of the cores where workers, with twice the work, share them
    )
    learner_cores: tuple[int, ...] = ()  # of a concurrent trainer; other trainers run on server_cores

    @property
    def workers(self) -> int:
        return len(self.worker_cores)


def place_processes(
    workers: int | None = None,
    cores: Sequence[int] | None = None,
    device: str = "cpu",
    torch_threads: int | None = None,
    concurrent: bool = False,
) -> Placement:
    """Give each usable core a worker process; with a GPU, keep the first core for the process that drives it.

    workers, cores: None takes as many as the affinity mask and the cgroup's quota grant. More workers than cores share
    the cores, with a warning. concurrent: half of the cores learn while the others step and act; with a GPU, two cores
    drive it. Raises ConfigError for a core that is not allowed and for a count below 1.
    """
    usable = hardware.usable_cores(cores)
    if workers is not None and workers < 1:
        raise ConfigError(f"--sampler.workers {workers}: at least 1 is needed")
    on_gpu = device != "cpu"
    learning: list[int] = []
    if concurrent and len(usable) > 1 + on_gpu:
        half = 1 if on_gpu else len(usable) // 2
        usable, learning = usable[:-half], usable[-half:]
    if on_gpu and len(usable) > 1:
        server, stepping = usable[:1], usable[1:]
    else:
        server, stepping = usable, usable
    n = workers if workers is not None else len(stepping)
    if n > len(stepping):
        hardware.say_once(f"{n} workers share {len(stepping)} cores: more workers than cores only costs time")
    threads = torch_threads if torch_threads is not None else len(learning or server)
    if threads < 1:
        raise ConfigError(f"--torch-threads {threads}: at least 1 is needed")
    pinned = hasattr(os, "sched_setaffinity")
    return Placement(
        worker_cores=tuple(stepping[i % len(stepping)] if pinned else None for i in range(n)),
        server_cores=tuple(server),
        torch_threads=threads,
        device=device,
        # concurrent: the learner's number, since BLAS has one number of threads for all threads of a process
        act_threads=1 if on_gpu else threads if concurrent else max(1, threads // 2),
        learner_cores=tuple(learning) if pinned else (),
    )


def gpu_of_rank(rank: int, ranks: int, gpus: int) -> int:
    """Return the index of a rank's GPU. More ranks than GPUs share them evenly in order: 0 0 1 1 for 4 on 2."""
    return rank * gpus // max(ranks, gpus)


def share_of_cores(cores: Sequence[int], ranks: int, rank: int, gpus: int = 0) -> tuple[int, ...]:
    """Return a rank's even share of neighbouring cores; with more ranks than cores, one core in turn.

    gpus: their number. If ranks share GPUs, each GPU gets an even share of the cores, which are listed GPU by GPU, and
    its ranks divide that share.
    """
    n = len(cores)
    if 0 < gpus < ranks:
        gpu = gpu_of_rank(rank, ranks, gpus)
        sharing = [r for r in range(ranks) if gpu_of_rank(r, ranks, gpus) == gpu]
        return share_of_cores(share_of_cores(cores, gpus, gpu), len(sharing), sharing.index(rank))
    if ranks > n:
        return (cores[rank % n],)
    return tuple(cores[rank * n // ranks : (rank + 1) * n // ranks])
