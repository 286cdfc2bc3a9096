"""The file of results, to which every part adds its own, and its page."""

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
    """gpu-NAME.json and gpu-NAME.md in a folder. Parts of earlier commands stay."""

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
        """Add or replace a part, and write both files."""
        about = {
            "seconds": round(seconds, 1),
            "command": command,
            "date": time.strftime("%Y-%m-%d"),
            "git": git_revision(),
        }
        self._write(self.parts() | {name: result | about})

    def drop(self, name: str) -> None:
        self._write({k: v for k, v in self.parts().items() if k != name})

    def _write(self, parts: dict[str, Any]) -> None:
        content = {"gpu": self.gpu, "machine": machine(), "parts": parts}
        for path, text in ((self.json, json.dumps(content, indent=1) + "\n"), (self.page, page(content))):
            temporary = path.with_name(f".{path.name}")
            temporary.write_text(text)
            os.replace(temporary, path)


def slug(name: str) -> str:
    """Return a GPU's name as a part of a file's name: "NVIDIA H200" -> "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def describe(device: str) -> dict[str, Any]:
    """Return the GPU's name, memory, compute capability and software."""
    import torch

    if device.startswith("sim"):
        return {"name": "simulated", "memory_gib": None, "capability": None, "cuda": None, "cudnn": None}
    properties = runtime(device).get_device_properties(device)
    return {
        "name": properties.name,
        "memory_gib": round(properties.total_memory / 2**30, 1),
        "capability": f"{properties.major}.{properties.minor}",
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def page(content: dict[str, Any]) -> str:
    """Return the page in Markdown: machine, goals, and a table of each part."""
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
    goals = [goal_row(goal) for name in PARTS if name in parts for goal in parts[name].get("goals", [])]
    if goals:
        lines += ["## Goals", "", *table(["goal", "measured", "bound", "met"], goals), ""]
    return "\n".join(lines + [line for name in PARTS if name in parts for line in section(name, parts[name])])


def section(name: str, result: dict[str, Any]) -> list[str]:
    """Return a part's lines of the page."""
    does = PARTS[name].does
    about = f"{does[0].upper()}{does[1:]}. `{result['command']}`, {result['date']}, {result['seconds']:,.0f} s."
    lines = [f"## {name}", "", about, ""]
    if result.get("error"):
        lines += [f"Failed: {result['error']}", ""]
    if result.get("rows"):
        lines += [*table(result["columns"], result["rows"]), ""]
    notes = [f"- {note}" for note in result.get("notes", [])]
    return lines + ([*notes, ""] if notes else [])


def goal_row(goal: dict[str, Any]) -> list[str]:
    """Return the row of a goal."""
    bound = f"{'at least' if goal['at_least'] else 'at most'} {cell(goal['bound'])}"
    return [goal["what"], cell(goal["value"]), bound, "met" if goal["met"] else "not met"]


def summary(name: str, result: dict[str, Any]) -> list[str]:
    """Return a part's lines for the terminal: its table, goals and notes."""
    lines = [f"{name}: {result['seconds']:,.1f} s"]
    lines += table(result["columns"], result["rows"]) if result.get("rows") else []
    for what, value, bound, met in map(goal_row, result.get("goals", [])):
        lines.append(f"  goal: {what}: {value}, {bound}: {met}")
    lines += [f"  note: {note}" for note in result.get("notes", [])]
    return lines + ([f"  failed: {result['error']}"] if result.get("error") else [])
