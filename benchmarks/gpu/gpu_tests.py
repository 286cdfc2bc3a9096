"""The tests that need a GPU: pytest -m gpu in a process of its own."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu.bench import Bench, Result

ROOT = Path(__file__).parents[2]
COLUMNS = ("outcome", "tests")
OUTCOMES = ("passed", "failed", "skipped", "error", "errors", "xfailed")


def files() -> list[str]:
    """Return the test files with tests that need a GPU. Others may import packages that are not installed."""
    return sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in path.read_text()
    )


def measure(bench: Bench) -> Result:
    if bench.device.startswith("sim"):
        return Result(COLUMNS, notes=["not run: pytest -m gpu needs a GPU that is not simulated"])
    if importlib.util.find_spec("pytest") is None:
        return Result(COLUMNS, notes=["not run: pytest is not installed"])
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-rs", *files()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=bench.left)
    lines = done.stdout.strip().splitlines() or ["no output"]
    counts = counted(lines[-1])
    failed = sum(n for outcome, n in counts.items() if outcome in ("failed", "error", "errors"))
    wrong = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    skipped = [line for line in lines if line.startswith("SKIPPED")]
    error = f"{failed} failed: {lines[-1]}" if failed else "" if counts else f"pytest: {lines[-1]}"
    return Result(COLUMNS, [[k, n] for k, n in counts.items()], notes=wrong + skipped, error=error)


def counted(line: str) -> dict[str, int]:
    """Return the numbers of pytest's last line: {"passed": 3, "skipped": 1}."""
    found = re.findall(r"(\d+) ([a-z]+)", line)
    return {outcome: int(n) for n, outcome in found if outcome in OUTCOMES}
