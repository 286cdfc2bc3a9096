"""The cores, with their hyperthreads, and GPUs of each NUMA node, of this machine or of a file."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_rl.system import hardware
from accel_rl.system.errors import ConfigError, nearest

SYS = "/sys/devices/system"


@dataclass(frozen=True)
class Node:
    """A NUMA node, usually a socket. cores: logical processors (hyperthreads) of each core. gpus: indices."""

    cores: tuple[tuple[int, ...], ...]
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Machine:
    """memory: bytes, or None if unknown; of this machine, those that are free. machines: number of such machines in a
    cluster, the sweep's one among them."""

    nodes: tuple[Node, ...]
    memory: int | None = field(default=None, compare=False)
    machines: int = 1

    def __post_init__(self) -> None:
        for what, ids in (("core", [t for n in self.nodes for c in n.cores for t in c]), ("GPU", list(self.gpus))):
            if len(set(ids)) < len(ids):
                twice = next(i for i in ids if ids.count(i) > 1)
                raise ConfigError(f"machine: {what} {twice} is there twice")

    @property
    def gpus(self) -> tuple[int, ...]:
        return tuple(g for n in self.nodes for g in n.gpus)

    @property
    def cores(self) -> int:
        return sum(len(n.cores) for n in self.nodes)

    def cores_of(self, processors: Sequence[int]) -> int:
        """Return the number of physical cores of these logical processors."""
        return sum(not set(c).isdisjoint(processors) for n in self.nodes for c in n.cores)

    def describe(self) -> str:
        """machine: 2 NUMA nodes, 40 cores (80 logical processors), GPUs 0-7"""
        nodes, processors = len(self.nodes), sum(len(c) for n in self.nodes for c in n.cores)
        gpus = f"GPU{'s' * (len(self.gpus) > 1)} {ranges(self.gpus)}" if self.gpus else "no GPU"
        cores = f"{self.cores} core{'s' * (self.cores > 1)} ({processors} logical processor{'s' * (processors > 1)})"
        others = f"; {self.machines} such machines" if self.machines > 1 else ""
        return f"machine: {nodes} NUMA node{'s' * (nodes > 1)}, {cores}, {gpus}{others}"

    def restricted(self, processors: Sequence[int]) -> "Machine":
        """Return the machine with only these logical processors. ConfigError for a processor that it does not have."""
        there = sorted(t for n in self.nodes for c in n.cores for t in c)
        if outside := sorted(set(processors) - set(there)):
            raise ConfigError(f"--cores: core {outside} is not allowed; allowed: {ranges(there)}")
        nodes = []
        for node in self.nodes:
            cores = (tuple(t for t in c if t in processors) for c in node.cores)
            nodes.append(Node(tuple(c for c in cores if c), node.gpus))
        return replace(self, nodes=tuple(nodes))


def read(sys_folder: str = SYS) -> Machine:
    """Read this machine: the cores that the affinity mask and the cgroup allow, and the GPUs visible to CUDA."""
    allowed = hardware.allowed_cores()
    quota = hardware.cgroup_cpus()
    if quota is not None and quota < len(allowed):
        hardware.say_once(f"the cgroup grants {quota:g} of {len(allowed)} cores")
        allowed = allowed[: max(1, int(quota + 0.5))]
    nodes: dict[int, list[tuple[int, ...]]] = {}
    for siblings, node in sorted({_place(sys_folder, c) for c in allowed}):
        nodes.setdefault(node, []).append(tuple(t for t in siblings if t in allowed))
    gpus = _gpus()
    if outside := {n for n in gpus.values() if n not in nodes}:
        hardware.say_once(f"GPUs of NUMA node {sorted(outside)}, which has no core here, use cores of another")
    at = min(nodes)
    return Machine(
        tuple(
            Node(tuple(cores), tuple(g for g, n in gpus.items() if n == node or (node == at and n not in nodes)))
            for node, cores in sorted(nodes.items())
        ),
        hardware.free_memory("cpu"),
    )


def _place(sys_folder: str, core: int) -> tuple[tuple[int, ...], int]:
    """Return (hyperthreads of the core, its NUMA node); the core alone and node 0 if the system does not tell."""
    cpus = Path(sys_folder) / "cpu"
    node = next((int(p.name[4:]) for p in (cpus / f"cpu{core}").glob("node[0-9]*")), 0)
    return hyperthreads(core, cpus), node


def hyperthreads(core: int, cpus: Path = Path(SYS) / "cpu") -> tuple[int, ...]:
    """Return all logical processors of this one's physical core; only this one if the system does not tell."""
    try:
        return tuple(numbers((cpus / f"cpu{core}" / "topology" / "thread_siblings_list").read_text().strip()))
    except (OSError, ConfigError):
        return (core,)


def _gpus() -> dict[int, int]:
    """Return {GPU: NUMA node}; GPUs are numbered by PCI bus, as with CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    try:
        query = ["nvidia-smi", "--query-gpu=index,pci.bus_id", "--format=csv,noheader"]
        lines = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return {}
    found = {}
    for line in lines:
        index, _, bus = line.partition(",")
        domain, _, rest = bus.strip().lower().partition(":")
        try:
            node = int(Path(f"/sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node").read_text())
        except (OSError, ValueError):
            node = 0
        found[int(index)] = max(node, 0)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    shown = [int(v) for v in visible.split(",") if v.strip().isdigit()]
    return {g: found[g] for g in shown if g in found}


def load(file: Path) -> Machine:
    """Read a machine from JSON. ConfigError.

    Either all nodes, {"nodes": [{"cores": [[0, 40], [1, 41]], "gpus": [0]}, ...]}, or equal nodes, numbered as by
    Linux: {"nodes": 2, "cores_per_node": 20, "threads_per_core": 2, "gpus_per_node": 4}. Both may have
    "memory_gib", and "machines", the number of such machines in a cluster.
    """
    try:
        values = json.loads(file.read_text())
    except OSError as e:
        raise ConfigError(f"--machine {file}: {e.strerror}") from e
    except ValueError as e:
        raise ConfigError(f"--machine {file}: no JSON ({e})") from e
    try:
        values, memory, machines = _of_cluster(values)
        found = _even(values) if isinstance(values["nodes"], int) else _listed(values["nodes"])
        return replace(found, memory=memory, machines=machines)
    except (KeyError, TypeError, ValueError) as e:
        if isinstance(e, ConfigError):
            raise ConfigError(f"--machine {file}: {e}") from e
        raise ConfigError(
            f'--machine {file}: wanted {{"nodes": [{{"cores": [[0], ...], "gpus": [...]}}, ...]}} or '
            f'{{"nodes": 2, "cores_per_node": 20, "threads_per_core": 2, "gpus_per_node": 4}} ({e!r})'
        ) from e


def _of_cluster(values: dict[str, Any]) -> tuple[dict[str, Any], int | None, int]:
    """Return (the other keys, bytes of memory, number of machines). ConfigError."""
    memory, machines = values.get("memory_gib"), values.get("machines", 1)
    if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int | float) or not memory > 0):
        raise ConfigError(f"memory_gib={memory!r}: must be a number above 0")
    if isinstance(machines, bool) or not isinstance(machines, int) or machines < 1:
        raise ConfigError(f"machines={machines!r}: must be a whole number, at least 1")
    others = {key: value for key, value in values.items() if key not in ("memory_gib", "machines")}
    return others, None if memory is None else int(memory * 2**30), machines


def _even(values: dict[str, int]) -> Machine:
    allowed = ("nodes", "cores_per_node", "threads_per_core", "gpus_per_node")
    for key, value in values.items():
        if key not in allowed:
            more = (*allowed, "memory_gib", "machines")
            raise ConfigError(f"unknown key {key!r}{nearest(key, more)}; allowed: {', '.join(more)}")
        if not isinstance(value, int) or value < (key != "gpus_per_node"):
            raise ConfigError(f"{key}={value!r}: must be a whole number, at least {int(key != 'gpus_per_node')}")
    n, cores = values["nodes"], values["cores_per_node"]
    threads, gpus = values.get("threads_per_core", 1), values.get("gpus_per_node", 0)

    def core(i: int) -> tuple[int, ...]:
        return tuple(i + t * n * cores for t in range(threads))

    return Machine(
        tuple(
            Node(
                tuple(core(i) for i in range(node * cores, (node + 1) * cores)),
                tuple(range(node * gpus, (node + 1) * gpus)),
            )
            for node in range(n)
        )
    )


def _listed(nodes: list[dict[str, Any]]) -> Machine:
    made = []
    for node in nodes:
        if unknown := [k for k in node if k not in ("cores", "gpus")]:
            raise ConfigError(f"unknown key {unknown[0]!r}; allowed: cores, gpus")
        cores = tuple(tuple(int(t) for t in c) for c in node["cores"])
        made.append(Node(cores, tuple(int(g) for g in node.get("gpus", ()))))
    if not any(n.cores for n in made):
        raise ConfigError("there is no core")
    return Machine(tuple(made))


def numbers(text: str) -> list[int]:
    """0-3,8 -> [0, 1, 2, 3, 8]. ConfigError."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or (dash and int(high) < int(low)):
            raise ConfigError(f"{text!r} is no list of numbers such as 0-3,8")
        found += range(int(low), int(high or low) + 1)
    if len(set(found)) < len(found):
        raise ConfigError(f"{text!r} holds a number twice")
    return found


def ranges(values: Sequence[int]) -> str:
    """[0, 1, 2, 8] -> 0-2,8."""
    parts: list[list[int]] = []
    for v in sorted(values):
        if parts and v == parts[-1][-1] + 1:
            parts[-1].append(v)
        else:
            parts.append([v])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts) or "-"
