"""Runs the tests that need a GPU (pytest -m gpu) in a separate process, and checks the C++ extensions."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from accel_rl.system.errors import RunError
from benchmarks.gpu.bench import Bench, Result

ROOT = Path(__file__).parents[2]
COLUMNS = ("outcome", "tests")
OUTCOMES = ("passed", "failed", "skipped", "error", "errors", "xfailed")
EXTENSIONS = {
    "accel_rl.emulator._core": "ale-py plays, several times slower",
    "accel_rl.kernels._native": "torch computes on the host",
}


def files() -> list[str]:
    """Return the test files with tests that need a GPU."""
    return sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in path.read_text()
    )


def measure(bench: Bench) -> Result:
    """Run the GPU's tests, and return the numbers of passed, failed and skipped tests."""
    if bench.device.startswith("sim"):
        return Result(COLUMNS, notes=["not run: pytest -m gpu needs a GPU that is not simulated"])
    if importlib.util.find_spec("pytest") is None:
        return Result(COLUMNS, notes=["not run: pytest is not installed"])
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-rs", *files()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=bench.left)
    lines = done.stdout.strip().splitlines() or ["no output"]
    counts = counted(lines[-1])
    failed = sum(n for outcome, n in counts.items() if outcome in ("failed", "error", "errors"))
    notes = [line for prefix in (("FAILED", "ERROR"), "SKIPPED") for line in lines if line.startswith(prefix)]
    error = f"{failed} failed: {lines[-1]}" if failed else "" if counts else f"pytest: {lines[-1]}"
    return Result(COLUMNS, [[k, n] for k, n in counts.items()], notes=notes, error=error)


def counted(line: str) -> dict[str, int]:
    """Return the numbers of pytest's last line, such as {"passed": 3, "skipped": 1}."""
    found = re.findall(r"(\d+) ([a-z]+)", line)
    return {outcome: int(n) for n, outcome in found if outcome in OUTCOMES}


def missing_extensions() -> str:
    """Return one line that names the extensions that are not compiled, or "" if all are compiled."""
    found = [f"{name} ({instead})" for name, instead in EXTENSIONS.items() if importlib.util.find_spec(name) is None]
    return f"not built: {', '.join(found)}; --build needs a C++17 compiler and pybind11" if found else ""


def build_extensions() -> None:
    """Compile the C++ extensions in this checkout, or raise RunError with a message of one line."""
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise RunError(f"--build: setup.py build_ext --inplace failed: {lines[-1]}")
