"""The result files of the GPU benchmark's parts, and the Markdown page with all results."""

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from accel_rl.machine.devices import runtime
from accel_rl.run.run_folder import git_revision
from benchmarks.gpu.parts import PARTS
from benchmarks.harness.program import machine
from benchmarks.harness.table import cell, table


class Results:
    """Writes gpu-NAME/PART.json and gpu-NAME.md to a folder. Results of parts that are not measured again remain."""

    def __init__(self, folder: Path, device: str):
        self.gpu = describe(device)
        self.git = git_revision()
        self.machine = {**machine(), "lscpu": _lscpu()}
        self.folder = folder / f"gpu-{slug(self.gpu['name'])}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.page = self.folder.with_suffix(".md")

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return the results so far, by part."""
        return {name: part for name in PARTS if (part := self.part(name))}

    def part(self, name: str) -> dict[str, Any]:
        """Return the result of a part, or {} if the part has no result."""
        try:
            return dict(json.loads(self._file(name).read_text()))
        except (OSError, ValueError):
            return {}

    def state(self, name: str, command: str) -> str:
        """Return the state of a part: "finished", "unfinished", "failed" or "missing". Results of other commands and
        other commits count as missing."""
        part = self.part(name)
        if (part.get("command"), part.get("git")) != (command, self.git):
            return "missing"
        return "failed" if part["error"] else "finished" if part["finished"] else "unfinished"

    def put(self, name: str, result: dict[str, Any], seconds: float, command: str, finished: bool = True) -> None:
        """Replace the result of a part, and write the page again."""
        about = {"finished": finished, "seconds": round(seconds, 1), "command": command}
        about |= {"date": time.strftime("%Y-%m-%d"), "git": self.git, "gpu": self.gpu, "machine": self.machine}
        _write(self._file(name), json.dumps({"error": "", **result, **about}, indent=1) + "\n")
        _write(self.page, page(self.parts()))

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _lscpu() -> str:
    """Return what lscpu prints about sockets, cores, threads, caches and NUMA nodes, or "" without lscpu."""
    try:
        return subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout.partition("\nVulner")[0]
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    """Replace a file atomically, so that a killed process leaves either the old or the new file."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text)
    os.replace(temporary, path)


def slug(name: str) -> str:
    """Convert a GPU's name to a part of a file name, such as "NVIDIA H200" to "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def describe(device: str) -> dict[str, Any]:
    """Return the GPU's name, memory, compute capability and software, or None if the device is simulated."""
    import torch

    names = ("memory_gib", "capability", "cuda", "cudnn")
    if device.startswith("sim"):
        return {"name": "simulated"} | dict.fromkeys(names)
    p = runtime(device).get_device_properties(device)
    memory, software = round(p.total_memory / 2**30, 1), (torch.version.cuda, torch.backends.cudnn.version())
    return {"name": p.name, **dict(zip(names, (memory, f"{p.major}.{p.minor}", *software), strict=True))}


def page(parts: dict[str, dict[str, Any]]) -> str:
    """Return the page of results in Markdown: a description of the machine that measured the last part, and a section
    for each part."""
    last = list(parts.values())[-1]
    gpu, host = last["gpu"], last["machine"]
    facts = {
        "GPU": gpu["name"],
        "its memory": f"{gpu['memory_gib']} GiB" if gpu["memory_gib"] else None,
        "compute capability": gpu["capability"],
        "CUDA, cuDNN": f"{gpu['cuda']}, {gpu['cudnn']}",
        "CPU": host["cpu"],
        "cores": len(host["cores"]),
        "cgroup's cores": host["cgroup_cpus"] or "no limit",
        "versions": ", ".join(f"{k} {v}" for k, v in host["versions"].items() if v),
    }
    lines = [
        f"# GPU: {gpu['name']}",
        "",
        "Written by `python -m benchmarks.gpu`. Medians of measurements in turns.",
        "",
    ]
    if gpu["name"] == "simulated":
        lines += ["The device is simulated: no figure on this page says anything about speed.", ""]
    lines += [*table(["", ""], list(facts.items())), ""]
    return "\n".join(lines + [line for name, result in parts.items() for line in section(name, result)])


def section(name: str, result: dict[str, Any]) -> list[str]:
    """Return a part's lines for the page and the terminal: its table, goals and notes."""
    does = PARTS[name].does
    about = f"{does[0].upper()}{does[1:]}. `{result['command']}`, {result['date']}, {result['seconds']:,.0f} s."
    lines = [f"## {name}", "", about, ""]
    if result["error"]:
        lines += [f"Failed: {result['error']}", ""]
    elif not result["finished"]:
        lines += ["Not finished: the process ended before the part did.", ""]
    if result.get("rows"):
        lines += [*table(result["columns"], result["rows"]), ""]
    goals = []
    for g in result.get("goals", []):
        bound = f"{'at least' if g['at_least'] else 'at most'} {cell(g['bound'])}"
        goals.append([g["what"], g["value"], bound, "met" if g["met"] else "not met"])
    lines += [*table(["goal", "measured", "bound", "met"], goals), ""] if goals else []
    notes = [f"- {note}" for note in result.get("notes", [])]
    return lines + ([*notes, ""] if notes else [])
