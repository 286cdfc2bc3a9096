"""What this process may use, and who runs where: allowed cores, cgroup limits, GPUs -> Placement.

Only the affinity mask and the cgroup's quota count: `os.cpu_count` ignores both.
"""

import contextlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_rl.system.errors import ConfigError

_said: set[str] = set()


def say_once(message: str) -> None:
    """A fallback is never silent and never nags."""
    if message not in _said:
        _said.add(message)
        warnings.warn(message, stacklevel=3)


def allowed_cores() -> list[int]:
    """The cores this process may run on, from its affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    say_once("this system has no core affinity: processes are not pinned")
    return list(range(os.cpu_count() or 1))


def _cgroup_folders(controller: str, root: str | Path, proc: str | Path) -> set[Path]:
    """Where this process's cgroup (v2 or v1) and its ancestors keep a controller's limits."""
    root = Path(root)
    try:
        lines = Path(proc).read_text().splitlines()
    except OSError:
        lines = []
    folders = {root}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue  # v1: another controller's hierarchy
        bases = [root / controllers, root / controller] if controllers else [root]
        for base in bases:
            folder = base / path.lstrip("/")
            folders |= {base, folder, *(p for p in folder.parents if base in p.parents)}
    return folders


def cgroup_cpus(root: str | Path = "/sys/fs/cgroup", proc: str | Path = "/proc/self/cgroup") -> float | None:
    """How many cores' time the cgroup (v2 or v1) grants, the least over its ancestors; None without a limit."""
    limits = []
    for folder in _cgroup_folders("cpu", root, proc):
        try:
            quota, period = (folder / "cpu.max").read_text().split()
            if quota != "max":
                limits.append(int(quota) / int(period))
        except (OSError, ValueError):
            pass
        try:
            quota_us = int((folder / "cpu.cfs_quota_us").read_text())
            if quota_us > 0:
                limits.append(quota_us / int((folder / "cpu.cfs_period_us").read_text()))
        except (OSError, ValueError):
            pass
    return min(limits) if limits else None


def cgroup_memory(root: str | Path = "/sys/fs/cgroup", proc: str | Path = "/proc/self/cgroup") -> int | None:
    """Bytes that the cgroup (v2 or v1) still grants, the least over its ancestors; None without a limit."""
    names = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    left = []
    for folder in _cgroup_folders("memory", root, proc):
        for limit, usage in names:
            with contextlib.suppress(OSError, ValueError):  # not there, or "max"
                left.append(max(0, int((folder / limit).read_text()) - int((folder / usage).read_text())))
    return min(left) if left else None


def free_memory(device: str = "cpu") -> int:
    """Bytes that can still be taken, on the host (what the machine has and the cgroup grants) or on a GPU."""
    if device != "cpu":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    import psutil

    available = psutil.virtual_memory().available
    granted = cgroup_memory()
    return available if granted is None else min(available, granted)


def gpu_count() -> int:
    """CUDA devices that this process sees (CUDA_VISIBLE_DEVICES counts)."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def available_device(device: str, flag: str) -> str:
    """A device that was asked for by name. ConfigError, naming the flag, if it is not there."""
    n = gpu_count()
    allowed = ["cpu", *(["cuda"] if n else []), *(f"cuda:{i}" for i in range(n))]
    if device not in allowed:
        raise ConfigError(f"{flag} {device}: not available; allowed: auto, {', '.join(allowed)}")
    return device


@dataclass(frozen=True, slots=True)
class Placement:
    """Who runs where, for one rank. A worker a core; both groups on each worker."""

    worker_cores: tuple[int | None, ...]  # one entry a worker; None: not pinned
    server_cores: tuple[int, ...]  # where the action server and the learner run
    torch_threads: int  # of one operation while learning
    device: str
    act_threads: int = 1  # while acting: half of the cores where they are shared with workers, who do twice the work
    learner_cores: tuple[int, ...] = ()  # of a trainer that runs beside the sampler; else it runs on server_cores

    @property
    def workers(self) -> int:
        return len(self.worker_cores)


def plan(
    workers: int | None = None,
    cores: Sequence[int] | None = None,
    device: str = "cpu",
    torch_threads: int | None = None,
    concurrent: bool = False,
) -> Placement:
    """A worker per allowed core; with a GPU the first core is kept for the process that drives it.

    `concurrent`: half of the cores learn while the others step and act (with a GPU: two cores drive it).

    `workers` and `cores` None: as many as the affinity mask and the cgroup's quota grant. More workers than cores share
    them (a warning). Raises ConfigError for a core that is not allowed.
    """
    usable = usable_cores(cores)
    if workers is not None and workers < 1:
        raise ConfigError(f"--sampler.workers {workers}: at least 1 is needed")
    on_gpu = device.startswith("cuda")
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
        say_once(f"{n} workers share {len(stepping)} cores: more workers than cores only costs time")
    threads = torch_threads if torch_threads is not None else len(learning or server)
    if threads < 1:
        raise ConfigError(f"--torch-threads {threads}: at least 1 is needed")
    pinned = hasattr(os, "sched_setaffinity")
    return Placement(
        worker_cores=tuple(stepping[i % len(stepping)] if pinned else None for i in range(n)),
        server_cores=tuple(server),
        torch_threads=threads,
        device=device,
        # beside a trainer: its number, since the libraries that multiply have one for all threads of a process
        act_threads=1 if on_gpu else threads if concurrent else max(1, threads // 2),
        learner_cores=tuple(learning) if pinned else (),
    )


def usable_cores(cores: Sequence[int] | None = None) -> list[int]:
    """Those that were asked for, or as many as the affinity mask and the cgroup's quota grant. ConfigError for one that
    is not allowed."""
    allowed = allowed_cores()
    if cores is not None:
        outside = sorted(set(cores) - set(allowed))
        if outside or not cores:
            raise ConfigError(f"--sampler.cores {list(cores)}: core {outside} is not allowed; allowed: {allowed}")
        return list(dict.fromkeys(cores))
    quota = cgroup_cpus()
    if quota is not None and quota < len(allowed):
        return allowed[: max(1, int(quota + 0.5))]
    return allowed


def gpu_of_rank(rank: int, ranks: int, gpus: int) -> int:
    """Index of a rank's GPU. More ranks than GPUs share them evenly, neighbours one: 0 0 1 1 for 4 on 2."""
    return rank * gpus // max(ranks, gpus)


def share_of_cores(cores: Sequence[int], ranks: int, rank: int, gpus: int = 0) -> tuple[int, ...]:
    """A rank's even share, neighbouring cores; where there are more ranks than cores they take turns. With `gpus`, of
    its GPU's even share of the cores, which are listed GPU by GPU."""
    n = len(cores)
    if 0 < gpus < ranks:
        gpu = gpu_of_rank(rank, ranks, gpus)
        sharing = [r for r in range(ranks) if gpu_of_rank(r, ranks, gpus) == gpu]
        return share_of_cores(share_of_cores(cores, gpus, gpu), len(sharing), sharing.index(rank))
    if ranks > n:
        return (cores[rank % n],)
    return tuple(cores[rank * n // ranks : (rank + 1) * n // ranks])


def pin(cores: Sequence[int]) -> list[int]:
    """Pin the calling thread (and those it starts) to `cores`; returns what was really set, after reading it back.

    A set that holds a core this machine lacks is cut down silently by the kernel, so only reading back tells.
    """
    try:
        os.sched_setaffinity(0, cores)
        got = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError) as e:
        say_once(f"could not pin to cores {list(cores)} ({e}): going on unpinned")
        return []
    if got != sorted(set(cores)):
        say_once(f"asked for cores {sorted(set(cores))}, got {got}")
    return got
