"""The C++ extensions: whether they are built, and building them."""

import importlib
import subprocess
import sys
from pathlib import Path

from accel_rl.system.errors import RunError

ROOT = Path(__file__).parents[2]
EXTENSIONS = {
    "accel_rl.emulator._core": "ale-py plays, several times slower",
    "accel_rl.kernels._native": "torch computes on the host",
}


def missing() -> str:
    """Return one line that names the extensions that cannot be imported; "" if there are none."""
    found = []
    for name, instead in EXTENSIONS.items():
        try:
            importlib.import_module(name)
        except ImportError:
            found.append(f"{name} ({instead})")
    if not found:
        return ""
    return f"not built: {', '.join(found)}; build them with --build, which needs a C++17 compiler and pybind11"


def build() -> None:
    """Build them in this checkout. RunError, one line, if that fails."""
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise RunError(f"--build: setup.py build_ext --inplace failed: {lines[-1]}")
