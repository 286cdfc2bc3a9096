"""The file of results, to which every part adds its own."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from accel_rl.runners.run_folder import git_revision
from accel_rl.system.devices import runtime
from benchmarks.gpu.page import page
from benchmarks.machine import machine


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
        whole = {"gpu": self.gpu, "machine": machine(), "parts": parts}
        for path, text in ((self.json, json.dumps(whole, indent=1) + "\n"), (self.page, page(whole))):
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
