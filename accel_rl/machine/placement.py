"""Divides a machine's cores and GPUs into slots for runs, a run's cores among its ranks, and a rank's cores among its
processes.

Slots of the same size do not share cores, and share a GPU only with --runs-per-gpu. Slots of different sizes may
overlap, so the runs of a sweep in overlapping slots are trained one after another. A GPU's cores belong to the GPU's
NUMA node, whose cores are divided evenly among its GPUs. The first core of each GPU's share is reserved for the process
that uses the GPU (Stooke & Abbeel 2018, section 4.1). The hyperthreads of a core belong to the same slot.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from accel_rl.machine import hardware
from accel_rl.machine.machine import Machine, ranges
from accel_rl.text.errors import ConfigError
from accel_rl.text.notes import say_once

X = TypeVar("X")
Core = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """The cores and the numbers of threads of one rank's processes."""

    # The core of each worker process, or None for a process that is not pinned
    worker_cores: tuple[int | None, ...]
    server_cores: tuple[int, ...]  # The action server and the learner run on server_cores.
    torch_threads: int  # Each operation of the learner uses `torch_threads` threads.
    device: str
    # If worker processes share the cores with inference, inference uses half of the cores.
    act_threads: int = 1
    # A concurrent trainer runs on learner_cores, and other trainers run on server_cores.
    learner_cores: tuple[int, ...] = ()

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
    """Place one worker process on each usable core. With a GPU, the first core is reserved for the process that uses
    the GPU.

    By default, all cores are used that the affinity mask and the cgroup's quota allow. If the workers outnumber the
    cores, workers share cores and a warning is printed. With `concurrent`, the learner uses half of the cores, and
    stepping and acting use the other half; with a GPU, two cores are reserved for the processes that use the GPU.
    Raises ConfigError for a core that is not allowed and for a count below 1.
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
        server = usable[:1]
        # The other hyperthreads of a core that launches GPU work stay unused, so that this core is fast.
        beside = {t for core in (*server, *learning) for t in hardware.siblings(core)}
        stepping = [core for core in usable[1:] if core not in beside] or usable[1:]
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
        # In a concurrent run, acting uses as many threads as learning: BLAS has one setting per process.
        act_threads=1 if on_gpu else threads if concurrent else max(1, threads // 2),
        learner_cores=tuple(learning) if pinned else (),
    )


def gpu_of_rank(rank: int, ranks: int, gpus: int) -> int:
    """The index of a rank's GPU. If there are more ranks than GPUs, the ranks share the GPUs evenly: 4 ranks on 2 GPUs
    use the GPUs 0 0 1 1."""
    return rank * gpus // max(ranks, gpus)


def share_of_cores(cores: Sequence[X], ranks: int, rank: int) -> tuple[X, ...]:
    """A rank's even share of the cores, which are consecutive entries of `cores`. If there are more ranks than cores,
    each rank gets one core."""
    n = len(cores)
    if ranks > n:
        return (cores[rank % n],)
    return tuple(cores[rank * n // ranks : (rank + 1) * n // ranks])


def cores_of_rank(cores: Sequence[int], gpus: Sequence[int], ranks: int, rank: int) -> tuple[int, ...]:
    """The logical processors of a rank: all that belong to the rank's physical cores among `cores`. Ranks do not share
    physical cores, unless there are more ranks than cores.

    `gpus` are the GPUs of the run, as CUDA numbers them. The ranks whose GPUs belong to one NUMA node divide the node's
    cores evenly. Without GPUs, or if their nodes are unknown, all ranks divide all cores. The result lists the first
    hyperthreads of all physical cores before the second hyperthreads.
    """
    machine, numbers = hardware.machine().restricted(cores), hardware.gpu_numbers()
    node_of = {gpu: i for i, node in enumerate(machine.nodes) for gpu in node.gpus}
    known = [node_of.get(numbers[gpu]) if gpu < len(numbers) else None for gpu in gpus]
    nodes = [known[gpu_of_rank(r, ranks, len(gpus))] if gpus else None for r in range(ranks)]
    pool = [core for node in machine.nodes for core in node.cores]
    sharing = list(range(ranks))
    if None not in nodes and (mine := nodes[rank]) is not None:
        pool = list(machine.nodes[mine].cores)
        sharing = [r for r in sharing if nodes[r] == mine]
    share = share_of_cores(pool, len(sharing), sharing.index(rank))
    return tuple(core[i] for i in range(max(map(len, share))) for core in share if i < len(core))


@dataclass(frozen=True)
class Slot:
    """A set of cores and GPUs for one run. `cores` are the logical processors that the run may use; the processors that
    belong to the same GPU are adjacent. `reserved` lists the first processor of each GPU's share, for the process that
    uses the GPU. `idle` lists the other hyperthreads of the reserved cores, which stay unused so that these cores are
    fast."""

    cores: tuple[int, ...]
    gpus: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    idle: tuple[int, ...] = ()
    nodes: tuple[int, ...] = (0,)

    @property
    def held(self) -> tuple[int, ...]:
        """All logical processors of the slot, including idle ones. No other run may use these logical processors at the
        same time."""
        return self.cores + self.idle

    def __str__(self) -> str:
        what, numbers = ("GPU", self.gpus) if self.gpus else ("core", self.cores)
        return f"{what}{'s' * (len(numbers) > 1)} {ranges(numbers)}"


def slots_of(
    machine: Machine,
    gpus: Sequence[int] | None = None,
    gpus_per_run: int = 1,
    runs_per_gpu: int = 1,
    cores_per_run: int = 1,
) -> list[Slot]:
    """Divide the machine into slots of equal size. Raises ConfigError if the machine does not have enough GPUs or
    cores. `gpus` are the GPUs to use, and None means all GPUs. If `gpus` is empty, the slots have no GPUs and
    `cores_per_run` cores each."""
    for flag, value in (
        ("--gpus-per-run", gpus_per_run),
        ("--runs-per-gpu", runs_per_gpu),
        ("--cores-per-run", cores_per_run),
    ):
        if value < 1:
            raise ConfigError(f"{flag} {value}: must be at least 1")
    use = chosen_gpus(machine, gpus)
    if not use:
        return _of_cores(machine, cores_per_run)
    if gpus_per_run > len(use):
        raise ConfigError(f"--gpus-per-run {gpus_per_run}: there are {len(use)} (GPUs {ranges(use)})")
    return _of_gpus(machine, use, gpus_per_run, runs_per_gpu)


def chosen_gpus(machine: Machine, gpus: Sequence[int] | None) -> list[int]:
    """Return the GPUs `gpus`, or all GPUs of the machine if `gpus` is None. Raises ConfigError for a GPU that the
    machine does not have."""
    available = machine.gpus
    use = list(available if gpus is None else gpus)
    if outside := [g for g in use if g not in available]:
        has = f"GPUs {ranges(available)}" if available else "no GPU"
        raise ConfigError(
            f"--gpus {ranges(use)}: GPU {ranges(outside)} is not there; the machine has {has}; plan for "
            "another with --dry-run --machine FILE"
        )
    return use


def _of_cores(machine: Machine, n: int) -> list[Slot]:
    if n > machine.cores:
        raise ConfigError(f"--cores-per-run {n}: there are {machine.cores}")
    slots = []
    for group in _groups([[(i, c) for c in node.cores] for i, node in enumerate(machine.nodes)], n):
        cores = tuple(sorted(t for _, c in group for t in c))
        slots.append(Slot(cores, nodes=tuple(sorted({i for i, _ in group}))))
    return slots


def _of_gpus(machine: Machine, chosen: Sequence[int], gpus_per_run: int, runs_per_gpu: int) -> list[Slot]:
    shares: dict[int, tuple[int, tuple[Core, ...]]] = {}  # Maps each GPU to (NUMA node, cores near the GPU).
    by_node: list[list[int]] = []
    for i, node in enumerate(machine.nodes):
        mine = [g for g in node.gpus if g in chosen]
        by_node.append(mine)
        each = len(node.cores) // len(mine) if mine else 0
        for k, gpu in enumerate(mine):
            shares[gpu] = (i, node.cores[k * each : (k + 1) * each])
    each = min(len(cores) for _, cores in shares.values()) // runs_per_gpu
    threads = each * min((len(c) for _, cores in shares.values() for c in cores), default=0)
    if threads < 2:
        least = min(len(cores) for _, cores in shares.values())
        raise ConfigError(
            f"--runs-per-gpu {runs_per_gpu}: a GPU's share of its node is {least} cores, and each run needs two "
            "processors of each of its GPUs, one to drive it and one to step"
        )
    slots = []
    for group in _groups(by_node, gpus_per_run):
        for run in range(runs_per_gpu):
            parts = [shares[g][1][run * each : (run + 1) * each] for g in group]
            reserved = tuple(part[0][0] for part in parts)
            idle = tuple(t for part in parts for t in part[0][1:]) if each > 1 else ()
            cores = tuple(t for part in parts for c in part for t in c if t not in idle)
            slots.append(Slot(cores, tuple(group), reserved, idle, tuple(sorted({shares[g][0] for g in group}))))
    return slots


def _groups(by_node: Sequence[Sequence[X]], n: int) -> list[list[X]]:
    """Groups of n elements, from one NUMA node each unless every node has fewer than n elements. Remaining elements
    that do not fill a group are left out."""
    if all(len(things) < n for things in by_node):
        by_node = [[x for things in by_node for x in things]]
    return [list(things[i : i + n]) for things in by_node for i in range(0, len(things) // n * n, n)]


def describe_slots(slots: Sequence[Slot]) -> list[str]:
    rows = [("slot", "GPUs", "node", "drive GPUs", "cores")]
    for i, s in enumerate(slots):
        others = ranges([c for c in s.cores if c not in s.reserved])
        idle = f" (idle beside the reserved: {ranges(s.idle)})" if s.idle else ""
        rows.append((str(i), ranges(s.gpus), ranges(s.nodes), ranges(s.reserved), others + idle))
    wide = [max(least, *(len(row[k + 1]) for row in rows)) for k, least in enumerate((8, 5, 12))]
    return [f"{i:>4}  {g:<{wide[0]}} {n:<{wide[1]}} {d:<{wide[2]}} {cores}" for i, g, n, d, cores in rows]


def describe_unused(machine: Machine, slots: Sequence[Slot]) -> list[str]:
    """A line of text for the cores and one for the GPUs that belong to no slot."""
    used = {t for s in slots for t in s.held}
    lines = []
    if cores := [t for n in machine.nodes for c in n.cores for t in c if t not in used]:
        lines.append(f"in no slot: cores {ranges(cores)}")
    if gpus := [g for g in machine.gpus if not any(g in s.gpus for s in slots)]:
        lines.append(f"in no slot: GPUs {ranges(gpus)}")
    return lines
