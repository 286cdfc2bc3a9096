"""Every part of the GPU benchmark adds its results to one JSON file and one page."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from accel_rl.runners.run_folder import git_revision
from accel_rl.system.devices import runtime
from benchmarks.gpu.parts import PARTS
from benchmarks.harness.program import machine
from benchmarks.harness.table import cell, table


class Results:
    """`Results` writes the files gpu-NAME.json and gpu-NAME.md in a folder. The results of earlier commands stay in the
    files."""

    def __init__(self, folder: Path, device: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.gpu = describe(device)
        self.json = folder / f"gpu-{slug(self.gpu['name'])}.json"
        self.page = self.json.with_suffix(".md")

    def parts(self) -> dict[str, Any]:
        """Return the results so far, by part."""
        try:
            return dict(json.loads(self.json.read_text())["parts"])
        except (OSError, ValueError, KeyError):
            return {}

    def put(self, name: str, result: dict[str, Any], seconds: float, command: str) -> None:
        """Add or replace the result of a part, and write both files."""
        about = {"seconds": round(seconds, 1), "command": command, "date": time.strftime("%Y-%m-%d")}
        self._write(self.parts() | {name: result | about | {"git": git_revision()}})

    def drop(self, name: str) -> None:
        self._write({k: v for k, v in self.parts().items() if k != name})

    def _write(self, parts: dict[str, Any]) -> None:
        content = {"gpu": self.gpu, "machine": machine(), "parts": parts}
        for path, text in ((self.json, json.dumps(content, indent=1) + "\n"), (self.page, page(content))):
            temporary = path.with_name(f".{path.name}")
            temporary.write_text(text)
            os.replace(temporary, path)


def slug(name: str) -> str:
    """Return a GPU's name as a part of a file's name, such as "nvidia-h200" for "NVIDIA H200"."""
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


def page(content: dict[str, Any]) -> str:
    """Return the page in Markdown, with the machine and a section for each part."""
    gpu, host, parts = content["gpu"], content["machine"], content["parts"]
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
    return "\n".join(lines + [line for name in PARTS if name in parts for line in section(name, parts[name])])


def section(name: str, result: dict[str, Any]) -> list[str]:
    """Return a part's lines for the page and the terminal: its table, goals and notes."""
    does = PARTS[name].does
    about = f"{does[0].upper()}{does[1:]}. `{result['command']}`, {result['date']}, {result['seconds']:,.0f} s."
    lines = [f"## {name}", "", about, ""]
    if result.get("error"):
        lines += [f"Failed: {result['error']}", ""]
    if result.get("rows"):
        lines += [*table(result["columns"], result["rows"]), ""]
    goals = []
    for g in result.get("goals", []):
        bound = f"{'at least' if g['at_least'] else 'at most'} {cell(g['bound'])}"
        goals.append([g["what"], g["value"], bound, "met" if g["met"] else "not met"])
    lines += [*table(["goal", "measured", "bound", "met"], goals), ""] if goals else []
    notes = [f"- {note}" for note in result.get("notes", [])]
    return lines + ([*notes, ""] if notes else [])
