"""Slots: the cores and GPUs of one run.

Slots of one size do not share cores; --runs-per-gpu of them share a GPU. Slots of different sizes overlap: runs in
overlapping slots take turns (queue.py).

The cores of a GPU are of its own NUMA node, divided evenly among the node's GPUs. The first core of each share is
reserved for the process that drives the GPU (Stooke & Abbeel 2018, section 4.1). The hyperthreads of a core stay
together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from accel_rl.sweeps.machine import Machine, ranges
from accel_rl.system.errors import ConfigError

X = TypeVar("X")
Core = tuple[int, ...]


@dataclass(frozen=True)
class Slot:
    """cores: logical processors that the run may use, GPU by GPU. reserved: the first processor of each GPU's share,
    for the process that drives the GPU. idle: the other hyperthreads of these cores, kept free for its speed."""

    cores: tuple[int, ...]
    gpus: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    idle: tuple[int, ...] = ()
    nodes: tuple[int, ...] = (0,)

    @property
    def held(self) -> tuple[int, ...]:
        """All logical processors of the slot, with idle ones; no other run may use them at the same time."""
        return self.cores + self.idle

    def __str__(self) -> str:
        what, numbers = ("GPU", self.gpus) if self.gpus else ("core", self.cores)
        return f"{what}{'s' * (len(numbers) > 1)} {ranges(numbers)}"


def plan(
    machine: Machine,
    gpus: Sequence[int] | None = None,
    gpus_per_run: int = 1,
    runs_per_gpu: int = 1,
    cores_per_run: int = 1,
) -> list[Slot]:
    """Divide the machine into slots of one size. ConfigError if it does not have the GPUs or cores.

    gpus: GPUs to use; None: all; empty: slots of cores only. cores_per_run: used without GPUs.
    """
    for flag, value in (
        ("--gpus-per-run", gpus_per_run),
        ("--runs-per-gpu", runs_per_gpu),
        ("--cores-per-run", cores_per_run),
    ):
        if value < 1:
            raise ConfigError(f"{flag} {value}: must be at least 1")
    use = chosen(machine, gpus)
    if not use:
        return _of_cores(machine, cores_per_run)
    if gpus_per_run > len(use):
        raise ConfigError(f"--gpus-per-run {gpus_per_run}: there are {len(use)} (GPUs {ranges(use)})")
    return _of_gpus(machine, use, gpus_per_run, runs_per_gpu)


def chosen(machine: Machine, gpus: Sequence[int] | None) -> list[int]:
    """Return the GPUs to use; None: all. ConfigError for a GPU that the machine does not have."""
    there = machine.gpus
    use = list(there if gpus is None else gpus)
    if outside := [g for g in use if g not in there]:
        has = f"GPUs {ranges(there)}" if there else "no GPU"
        raise ConfigError(f"--gpus {ranges(use)}: GPU {ranges(outside)} is not there; the machine has {has}")
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
    shares: dict[int, tuple[int, tuple[Core, ...]]] = {}  # GPU -> (node, its cores)
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
    """Form groups of n within a node, or across nodes if no node has n. Remaining elements are left out."""
    if all(len(things) < n for things in by_node):
        by_node = [[x for things in by_node for x in things]]
    return [list(things[i : i + n]) for things in by_node for i in range(0, len(things) // n * n, n)]


def describe(slots: Sequence[Slot]) -> list[str]:
    """Describe each slot in a line."""
    rows = [("slot", "GPUs", "node", "drive GPUs", "cores")]
    for i, s in enumerate(slots):
        others = ranges([c for c in s.cores if c not in s.reserved])
        idle = f" (idle beside the reserved: {ranges(s.idle)})" if s.idle else ""
        rows.append((str(i), ranges(s.gpus), ranges(s.nodes), ranges(s.reserved), others + idle))
    wide = [max(least, *(len(row[k + 1]) for row in rows)) for k, least in enumerate((8, 5, 12))]
    return [f"{i:>4}  {g:<{wide[0]}} {n:<{wide[1]}} {d:<{wide[2]}} {cores}" for i, g, n, d, cores in rows]


def unused(machine: Machine, slots: Sequence[Slot]) -> list[str]:
    """Describe the unused cores and the unused GPUs, in a line each."""
    used = {t for s in slots for t in s.held}
    lines = []
    if cores := [t for n in machine.nodes for c in n.cores for t in c if t not in used]:
        lines.append(f"in no slot: cores {ranges(cores)}")
    if gpus := [g for g in machine.gpus if not any(g in s.gpus for s in slots)]:
        lines.append(f"in no slot: GPUs {ranges(gpus)}")
    return lines
