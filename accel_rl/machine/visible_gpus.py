"""Determines the GPUs that CUDA_VISIBLE_DEVICES makes visible to this process and to its child processes, without
initializing CUDA."""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from accel_rl.text.notes import say_once


def gpu_nodes() -> dict[int, int]:
    """{GPU (`visible_gpus`): NUMA node}. Without CUDA_VISIBLE_DEVICES, GPUs are numbered by PCI bus, as with
    CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    lines = _nvidia_smi("--query-gpu=index,pci.bus_id,uuid", "--format=csv,noheader")
    nodes, uuids = {}, dict[str, int]()
    for index, bus, uuid in (line.split(",") for line in lines):
        domain, _, rest = bus.strip().lower().partition(":")
        try:
            node = int(Path(f"/sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node").read_text())
        except (OSError, ValueError):
            node = 0
        nodes[int(index)], uuids[uuid.strip()] = max(node, 0), int(index)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return nodes
    if "MIG-" in visible:
        uuids |= _mig_instances(_nvidia_smi("-L"))
    shown = visible_gpus(visible, uuids)
    if nodes and visible.strip() and not shown:
        say_once(f"CUDA_VISIBLE_DEVICES={visible}: the driver shows no GPU, because this machine has none of that name")
    return {gpu: nodes[index] for gpu, index in shown.items()}


def _nvidia_smi(*arguments: str) -> list[str]:
    """The lines that nvidia-smi prints, or [] without an NVIDIA GPU."""
    program = shutil.which("nvidia-smi")
    return [] if program is None else _lines(program, *arguments)


@functools.cache  # The result is cached, because it is needed for each rank of a run.
def _lines(*command: str) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()


def _mig_instances(lines: Iterable[str]) -> dict[str, int]:
    """{UUID of each part of a GPU (MIG) in the list of `nvidia-smi -L`: index of the GPU}"""
    result, gpu = {}, 0
    for line in lines:
        if match := re.match(r"GPU (\d+):", line):
            gpu = int(match[1])
        elif match := re.search(r"UUID: (MIG-[^)]+)", line):
            result[match[1]] = gpu
    return result


def visible_gpus(visible: str, uuids: Mapping[str, int]) -> dict[int, int]:
    """{number: index} of the GPUs that are visible with the value `visible` of CUDA_VISIBLE_DEVICES. `uuids` maps the
    UUID of each GPU, and of each part of a GPU (MIG), to the GPU's index.

    If `visible` names a GPU by its index, the number is this index. If `visible` names a GPU by the beginning of the
    GPU's UUID, the number is the position of the name in `visible`. As in the driver, a name that no GPU has (such as
    -1) ends the list, and a list that names a GPU twice is empty.
    """
    names, result = _names(visible), dict[int, str]()
    by_index = all(map(_is_index, names))
    known = {**{str(index): index for index in uuids.values()}, **uuids}
    for position, name in enumerate(names):
        matches = [uuid for uuid in known if uuid == name or (name and not _is_index(name) and uuid.startswith(name))]
        if len(matches) != 1:
            break
        if matches[0] in result.values():
            return {}
        result[int(name) if by_index else position] = matches[0]
    return {number: known[match] for number, match in result.items()}


def gpu_names(gpus: Iterable[int]) -> str:
    """The value of CUDA_VISIBLE_DEVICES for a child process that uses some of this process's GPUs."""
    names = _names(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    by_index = all(map(_is_index, names))
    return ",".join(str(gpu) if by_index else names[gpu] for gpu in gpus)


def _names(visible: str) -> list[str]:
    return [name.strip() for name in visible.split(",")] if visible.strip() else []


def _is_index(name: str) -> bool:
    return re.fullmatch(r"-?\d+", name) is not None
