"""A machine description lists the cores (with their hyperthreads) and the GPUs of each NUMA node, and the size of the
memory.

A file in TOML or JSON describes another machine, for which runs can be planned. A machine file has one of three forms.
The first form states the number of cores:

    cores = 16                    # their number, or a list such as [0, 1, 2]
    quota = 12.5                  # cores that the cgroup grants; none: no limit
    memory = "128 GiB"            # bytes, or text with a unit
    gpus = {number = 1, memory = "80 GiB"}    # or gpus = 1, if their memory is unknown

The second form describes equal NUMA nodes, whose cores are numbered as by Linux:

    nodes = 2
    cores_per_node = 20
    threads_per_core = 2
    gpus_per_node = 4
    gpu_memory = "80 GiB"

The third form lists the NUMA nodes: {"nodes": [{"cores": [[0, 40], [1, 41]], "gpus": [0]}, ...]}. All forms may contain
`memory` (or `memory_gib`) and `machines`, the number of equal machines in a cluster.
"""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError, nearest

UNITS = {"": 1, "B": 1, "MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
BY_CORES = ("cores", "quota", "gpus")
BY_NODES = ("nodes", "cores_per_node", "threads_per_core", "gpus_per_node", "gpu_memory")
IN_ALL = ("memory", "memory_gib", "machines")


@dataclass(frozen=True)
class Node:
    """A NUMA node, usually a socket. `cores` lists the logical processors (hyperthreads) of each core. `gpus` lists the
    indices of the GPUs."""

    cores: tuple[tuple[int, ...], ...]
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Machine:
    """Resources read from a file, or detected on this machine.

    `quota` is the CPU limit of the cgroup, in cores, or None without a limit. `memory` is in bytes, or None if unknown;
    for this machine, `memory` is the free memory. `gpu_memory` is the memory of each GPU in bytes, or 0 if unknown.
    `machines` is the number of equal machines in the cluster, including this machine.
    """

    nodes: tuple[Node, ...]
    memory: int | None = field(default=None, compare=False)
    machines: int = 1
    quota: float | None = None
    gpu_memory: int = 0

    def __post_init__(self) -> None:
        for what, ids in (("core", self.processors), ("GPU", self.gpus)):
            if len(set(ids)) < len(ids):
                twice = next(i for i in ids if ids.count(i) > 1)
                raise ConfigError(f"machine: {what} {twice} is there twice")

    @property
    def gpus(self) -> tuple[int, ...]:
        return tuple(g for n in self.nodes for g in n.gpus)

    @property
    def cores(self) -> int:
        """Number of physical cores."""
        return sum(len(n.cores) for n in self.nodes)

    @property
    def processors(self) -> tuple[int, ...]:
        """All logical processors."""
        return tuple(t for n in self.nodes for c in n.cores for t in c)

    def cores_of(self, processors: Sequence[int]) -> int:
        """Number of physical cores of the given logical processors."""
        return sum(not set(c).isdisjoint(processors) for n in self.nodes for c in n.cores)

    def describe(self) -> str:
        """A text such as "machine: 2 NUMA nodes, 40 cores (80 logical processors), GPUs 0-7"."""
        gpus = f"GPU{'s' * (len(self.gpus) > 1)} {ranges(self.gpus)}" if self.gpus else "no GPU"
        processors = counted(len(self.processors), "logical processor")
        others = f"; {self.machines} such machines" if self.machines > 1 else ""
        nodes = counted(len(self.nodes), "NUMA node")
        return f"machine: {nodes}, {counted(self.cores, 'core')} ({processors}), {gpus}{others}"

    def resources(self) -> str:
        """A text such as "16 cores, of which the cgroup grants 12.5, 128 GiB of memory, 1 GPU of 80 GiB"."""
        quota = f", of which the cgroup grants {self.quota:g}" if self.quota else ""
        gpus = counted(len(self.gpus), "GPU") if self.gpus else "no GPU"
        each = f" of {self.gpu_memory / 2**30:.0f} GiB" if self.gpus and self.gpu_memory else ""
        memory = "an unknown amount" if self.memory is None else f"{self.memory / 2**30:.0f} GiB"
        return f"{len(self.processors)} cores{quota}, {memory} of memory, {gpus}{each}"

    def restricted(self, processors: Sequence[int]) -> "Machine":
        """The machine with only the given logical processors. The GPUs of a node with none of these processors are
        assigned to the first node that has one of these processors. Raises ConfigError for a processor that the machine
        does not have."""
        if outside := sorted(set(processors) - set(self.processors)):
            raise ConfigError(f"--cores: core {outside} is not allowed; allowed: {ranges(sorted(self.processors))}")
        nodes, homeless = list[Node](), list[int]()
        for node in self.nodes:
            cores = tuple(c for c in (tuple(t for t in c if t in processors) for c in node.cores) if c)
            if cores:
                nodes.append(Node(cores, node.gpus))
            else:
                homeless += node.gpus
        nodes[0] = Node(nodes[0].cores, tuple(sorted((*nodes[0].gpus, *homeless))))
        return replace(self, nodes=tuple(nodes))


def of_cores(
    cores: Sequence[int], quota: float | None = None, memory: int | None = None, gpus: int = 0, gpu_memory: int = 0
) -> Machine:
    """A machine of one NUMA node, whose cores have one hyperthread each."""
    node = Node(tuple((c,) for c in cores), tuple(range(gpus)))
    return Machine((node,), memory, quota=quota, gpu_memory=gpu_memory)


def read_machine(path: str | Path) -> Machine:
    """Raises ConfigError, with a message of one line."""
    kind = "JSON" if Path(path).suffix == ".json" else "TOML"
    try:
        text = Path(path).read_text()
        values = json.loads(text) if kind == "JSON" else tomllib.loads(text)
    except OSError as e:
        raise ConfigError(f"--machine {path}: {e.strerror}") from e
    except ValueError as e:
        raise ConfigError(f"--machine {path}: no {kind}: {e}") from e
    if not isinstance(values, dict):
        raise ConfigError(f"--machine {path}: must be a table with cores or nodes, memory and gpus")
    try:
        return _machine(values)
    except (ConfigError, ValueError) as e:
        raise ConfigError(f"--machine {path}: {e}") from e


def _machine(values: dict[str, Any]) -> Machine:
    """Raises ValueError or ConfigError."""
    by_nodes = "nodes" in values
    _check_keys(values, (*(BY_NODES if by_nodes else BY_CORES), *IN_ALL), ("nodes" if by_nodes else "cores",))
    memory, machines = values.get("memory"), values.get("machines", 1)
    if (gib := values.get("memory_gib")) is not None:
        if not _is_number(gib) or not gib > 0:
            raise ValueError(f"memory_gib={gib!r}: must be a number above 0")
        memory = int(gib * 2**30)
    if isinstance(machines, bool) or not isinstance(machines, int) or machines < 1:
        raise ValueError(f"machines={machines!r}: must be a whole number, at least 1")
    if by_nodes:
        result = _even(values) if not isinstance(values["nodes"], list) else _listed(values["nodes"])
        if "gpu_memory" in values:
            result = replace(result, gpu_memory=_bytes("gpu_memory", values["gpu_memory"]))
    else:
        result = _of_cores(values)
    return replace(result, memory=None if memory is None else _bytes("memory", memory), machines=machines)


def _of_cores(values: dict[str, Any]) -> Machine:
    gpus = values.get("gpus", 0)
    if not isinstance(gpus, dict):
        gpus = {"number": gpus}
    _check_keys(gpus, ("number", "memory"), ("number",), "gpus.")
    quota, number = values.get("quota"), gpus["number"]
    if quota is not None and (not _is_number(quota) or quota <= 0):
        raise ValueError(f"quota = {quota!r}: must be a number above 0")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"gpus = {number!r}: must be a whole number of at least 0, or a table with number and memory")
    each = _bytes("gpus.memory", gpus["memory"]) if "memory" in gpus else 0
    return of_cores(_cores(values["cores"]), quota, gpus=number, gpu_memory=each)


def _even(values: dict[str, int]) -> Machine:
    """Equal NUMA nodes, with processors numbered as by Linux: first one hyperthread of each core, then the second
    hyperthreads."""
    for key in BY_NODES[:2]:
        if key not in values:
            raise ValueError(f"{key} is missing")
    for key in BY_NODES[:4]:
        value, least = values.get(key, 1), int(key != "gpus_per_node")
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{key}={value!r}: must be a whole number, at least {least}")
    n, cores = values["nodes"], values["cores_per_node"]
    threads, gpus = values.get("threads_per_core", 1), values.get("gpus_per_node", 0)

    def core(i: int) -> tuple[int, ...]:
        return tuple(i + t * n * cores for t in range(threads))

    nodes = []
    for node in range(n):
        own_cores = tuple(core(i) for i in range(node * cores, (node + 1) * cores))
        nodes.append(Node(own_cores, tuple(range(node * gpus, (node + 1) * gpus))))
    return Machine(tuple(nodes))


def _listed(listed: list[Any]) -> Machine:
    nodes = []
    for values in listed:
        if not isinstance(values, dict):
            raise ValueError(f"nodes: {values!r} must be a table with cores and gpus")
        _check_keys(values, ("cores", "gpus"), ("cores",))
        try:
            cores = tuple(tuple(int(t) for t in c) for c in values["cores"])
            nodes.append(Node(cores, tuple(int(g) for g in values.get("gpus", ()))))
        except TypeError as e:
            raise ValueError(f"cores = {values['cores']!r}: must be a list of the processors of each core") from e
    if not any(n.cores for n in nodes):
        raise ValueError("there is no core")
    return Machine(tuple(nodes))


def _check_keys(values: dict[str, Any], known: tuple[str, ...], needed: tuple[str, ...], prefix: str = "") -> None:
    for key in values:
        if key not in known:
            raise ValueError(f"unknown key {prefix}{key}: must be of {', '.join(known)}{nearest(key, known)}")
    for key in needed:
        if key not in values:
            raise ValueError(f"{prefix}{key} is missing")


def _cores(value: Any) -> tuple[int, ...]:
    cores = list(range(value)) if isinstance(value, int) and not isinstance(value, bool) else value
    is_list = isinstance(cores, list) and all(isinstance(c, int) and not isinstance(c, bool) for c in cores)
    if not is_list or not cores or min(cores) < 0:
        raise ValueError(f"cores = {value!r}: must be their number, at least 1, or a list of them")
    return tuple(sorted(set(cores)))


def _bytes(name: str, value: Any) -> int:
    if isinstance(value, str) and (result := re.fullmatch(r"\s*([\d._]+)\s*([A-Za-z]*)\s*", value)):
        number, unit = result.groups()
        if unit in UNITS and number.count(".") < 2:
            value = float(number) * UNITS[unit]
    if not _is_number(value) or value <= 0:
        raise ValueError(f"{name} = {value!r}: must be bytes, or text with a unit such as 128 GiB")
    return int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers(text: str) -> list[int]:
    """Parse "0-3,8" as [0, 1, 2, 3, 8]."""
    result: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or (dash and int(high) < int(low)):
            raise ConfigError(f"{text!r} is no list of numbers such as 0-3,8")
        result += range(int(low), int(high or low) + 1)
    if len(set(result)) < len(result):
        raise ConfigError(f"{text!r} holds a number twice")
    return result


def ranges(values: Sequence[int]) -> str:
    """Format [0, 1, 2, 8] as "0-2,8"."""
    parts: list[list[int]] = []
    for v in sorted(values):
        if parts and v == parts[-1][-1] + 1:
            parts[-1].append(v)
        else:
            parts.append([v])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts) or "-"
