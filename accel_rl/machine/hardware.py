"""Detects the resources that this process may use: allowed cores, cgroup limits, memory and GPUs.

The affinity mask and the cgroup's quota limit the number of cores, but `os.cpu_count` ignores both limits. Within the
context manager `described`, the functions return the resources of another machine, described by a file.
"""

import contextlib
import functools
import os
import platform
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

from accel_rl.machine.machine import Machine, Node, numbers, ranges
from accel_rl.machine.visible_gpus import gpu_nodes
from accel_rl.text.errors import ConfigError
from accel_rl.text.notes import collected, say_once

SYS = "/sys/devices/system"
CPUINFO = Path("/proc/cpuinfo")
VECTOR_INSTRUCTIONS = {"amx_bf16": "AMX", "avx512f": "AVX-512", "avx2": "AVX2"}
"""Names of the vector instructions by their flags in /proc/cpuinfo, the fastest first."""
_described: ContextVar[Machine | None] = ContextVar("described", default=None)


@contextlib.contextmanager
def described(machine: Machine) -> Iterator[list[str]]:
    """A context in which this process plans runs for `machine` instead of this machine. The context manager yields the
    list in which `say_once` collects messages."""
    token = _described.set(machine)
    try:
        with collected() as messages:
            yield messages
    finally:
        _described.reset(token)


def allowed_cores() -> list[int]:
    """The cores of this process's affinity mask."""
    if (machine := _described.get()) is not None:
        return sorted(machine.processors)
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    say_once("this system has no core affinity: processes are not pinned")
    return list(range(os.cpu_count() or 1))


def _cgroup_folders(controller: str, root: str | Path, proc: str | Path) -> set[Path]:
    """The folders (v1 or v2) of the process's cgroup and of its ancestors, whose limits apply to this process."""
    root = Path(root)
    try:
        lines = Path(proc).read_text().splitlines()
    except OSError:
        lines = []
    folders = {root}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue  # In cgroup v1, each line lists some of the controllers.
        bases = [root / controllers, root / controller] if controllers else [root]
        for base in bases:
            folder = base / path.lstrip("/")
            folders |= {base, folder, *(p for p in folder.parents if base in p.parents)}
    return folders


def cgroup_cpus(root: str | Path = "/sys/fs/cgroup", proc: str | Path = "/proc/self/cgroup") -> float | None:
    """CPU limit in cores, or None if there is no limit: the minimum over the process's cgroup (v1 or v2) and its
    ancestors."""
    if (machine := _described.get()) is not None:
        return machine.quota
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
    """Bytes that the memory limit leaves free, or None if there is no limit: the minimum over the process's cgroup (v1
    or v2) and its ancestors."""
    left = []
    for folder in _cgroup_folders("memory", root, proc):
        for limit, usage, prefix in (
            ("memory.max", "memory.current", ""),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        ):
            # The cgroup has no limit if the limit file does not exist or contains "max".
            with contextlib.suppress(OSError, ValueError):
                rest = int((folder / limit).read_text()) - int((folder / usage).read_text())
                left.append(max(0, rest + _cached_files(folder / "memory.stat", prefix)))
    return min(left) if left else None


def _cached_files(stat: Path, prefix: str) -> int:
    """Bytes in a cgroup's file cache. Cached files count as used memory, but the kernel frees them for a process that
    needs memory."""
    try:
        numbers_of = dict(line.split() for line in stat.read_text().splitlines())
        return sum(int(numbers_of[f"{prefix}{kind}_file"]) for kind in ("inactive", "active"))
    except (OSError, ValueError, KeyError):
        return 0


def free_memory(device: str = "cpu") -> int:
    """Free memory, in bytes, of the host (within the cgroup's limit) or of a GPU."""
    if (machine := _described.get()) is not None:
        return (machine.memory or 0) if device == "cpu" else machine.gpu_memory
    if device != "cpu":
        from accel_rl.machine.devices import runtime

        return int(runtime(device).mem_get_info(device)[0])
    available = _available_memory()
    granted = cgroup_memory()
    return available if granted is None else min(available, granted)


def _available_memory() -> int:
    """Free memory of the host in bytes, including caches that the kernel can free."""
    try:
        with open("/proc/meminfo") as f:
            return next(1024 * int(line.split()[1]) for line in f if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        import psutil

        return int(psutil.virtual_memory().available)


def gpu_count() -> int:
    """Number of GPUs that CUDA_VISIBLE_DEVICES makes visible to this process."""
    if (machine := _described.get()) is not None:
        return len(machine.gpus)
    from accel_rl.machine.devices import gpu_type, runtime

    kind = gpu_type()
    return 0 if kind is None else int(runtime(kind).device_count())


def cpu_name(cpuinfo: Path = CPUINFO) -> str:
    """The processor's model and its fastest vector instructions, such as AMD EPYC with AVX-512, or the architecture if
    the system does not report the model. Virtual machines often hide the complete name of the model, such as AMD EPYC
    9654."""
    values = _first_core(cpuinfo)
    flags = values.get("flags", "").split()
    vectors = next((f" with {name}" for flag, name in VECTOR_INSTRUCTIONS.items() if flag in flags), "")
    return values.get("model name", platform.machine()) + vectors


@functools.cache  # The result is cached, because it is needed at every step of a rollout.
def cpu_flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """Names of the processor's features in /proc/cpuinfo. The set is empty outside Linux."""
    values = _first_core(cpuinfo)
    return frozenset(values.get("flags", values.get("Features", "")).split())  # On Arm, the entry is named Features.


def _first_core(cpuinfo: Path) -> dict[str, str]:
    try:
        lines = cpuinfo.read_text().partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def gpu_models() -> list[str]:
    """The model of each visible GPU, such as NVIDIA H100."""
    from accel_rl.machine.devices import runtime

    n = gpu_count()
    name_of = getattr(runtime(gpu_name()), "get_device_name", gpu_name) if n else gpu_name
    return [name_of(i) for i in range(n)]


def gpu_name(index: int = 0) -> str:
    """torch's name of a GPU, such as cuda:0."""
    from accel_rl.machine.devices import gpu_type

    kind = None if _described.get() is not None else gpu_type()
    return f"{kind or 'cuda'}:{index}"


def available_device(device: str, flag: str) -> str:
    """Raises a ConfigError that names the setting `flag` if the device is not available."""
    n = gpu_count()
    allowed = ["cpu", *([gpu_name().split(":")[0]] if n else []), *(gpu_name(i) for i in range(n))]
    if device not in allowed:
        raise ConfigError(f"{flag} {device}: not available; allowed: auto, {', '.join(allowed)}")
    return device


def usable_cores(cores: Sequence[int] | None = None) -> list[int]:
    """The requested cores, or by default as many cores as the affinity mask and the cgroup's quota allow. Raises
    ConfigError for a core that is not allowed."""
    allowed = allowed_cores()
    if cores is not None:
        outside = sorted(set(cores) - set(allowed))
        if outside or not cores:
            raise ConfigError(
                f"--sampler.cores {ranges(cores)}: core {ranges(outside)} is not allowed; allowed: {ranges(allowed)}"
            )
        return list(dict.fromkeys(cores))
    return allowed if (granted := _granted()) is None else allowed[:granted]


def _granted() -> int | None:
    """Number of allowed cores that may be used within the cgroup's CPU limit, or None if all of them may be used."""
    quota = cgroup_cpus()
    return max(1, int(quota + 0.5)) if quota is not None and quota < len(allowed_cores()) else None


def pin(cores: Sequence[int]) -> list[int]:
    """Pin the calling thread, and threads that it starts later, to `cores`. Return the affinity mask that is read back
    from the kernel, because the kernel silently ignores cores that the machine does not have."""
    try:
        os.sched_setaffinity(0, cores)
        got = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError) as e:
        say_once(f"could not pin to cores {list(cores)} ({e}): going on unpinned")
        return []
    if got != sorted(set(cores)):
        say_once(f"asked for cores {sorted(set(cores))}, got {got}")
    return got


def machine() -> Machine:
    """The machine for which runs are planned: the one that `described` has set, or this machine."""
    return _described.get() or this_machine()


def gpu_numbers() -> list[int]:
    """The numbers of the GPUs in the order cuda:0, cuda:1 ..., or [] if unknown."""
    return list(gpu_nodes()) if (machine := _described.get()) is None else sorted(machine.gpus)


def this_machine(sys_folder: str = SYS) -> Machine:
    """The cores that the affinity mask and the cgroup allow, and the GPUs visible to CUDA."""
    allowed = usable_cores()
    if _granted() is not None:
        say_once(f"the cgroup grants {cgroup_cpus():g} of {len(allowed_cores())} cores")
    nodes: dict[int, list[tuple[int, ...]]] = {}
    for siblings, node in sorted({_place(sys_folder, c) for c in allowed}):
        nodes.setdefault(node, []).append(tuple(t for t in siblings if t in allowed))
    gpus = gpu_nodes()
    if outside := {n for n in gpus.values() if n not in nodes}:
        say_once(f"GPUs of NUMA node {sorted(outside)}, which has no core here, use cores of another")
    first = min(nodes)
    result = []
    for node, cores in sorted(nodes.items()):
        of_node = (g for g, n in gpus.items() if n == node or (node == first and n not in nodes))
        result.append(Node(tuple(cores), tuple(of_node)))
    return Machine(tuple(result), free_memory("cpu"))


def _place(sys_folder: str, core: int) -> tuple[tuple[int, ...], int]:
    """(hyperthreads, NUMA node) of a core, or ((core,), 0) if the system does not report them."""
    cpus = Path(sys_folder) / "cpu"
    node = next((int(p.name[4:]) for p in (cpus / f"cpu{core}").glob("node[0-9]*")), 0)
    return hyperthreads(core, cpus), node


def siblings(processor: int) -> tuple[int, ...]:
    """All logical processors that share the physical core of `processor`, on the described machine or on this one."""
    if (machine := _described.get()) is not None:
        return next((core for node in machine.nodes for core in node.cores if processor in core), (processor,))
    return hyperthreads(processor)


def hyperthreads(core: int, cpus: Path = Path(SYS) / "cpu") -> tuple[int, ...]:
    """All logical processors that share the physical core of the logical processor `core`, or only `core` if Linux does
    not report the others."""
    try:
        return tuple(numbers((cpus / f"cpu{core}" / "topology" / "thread_siblings_list").read_text().strip()))
    except (OSError, ConfigError):
        return (core,)
