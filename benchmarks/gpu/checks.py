"""Runs the tests that need a GPU (pytest -m gpu) in a separate process, and checks the C++ extensions."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from accel_rl.text.errors import RunError
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.guarded import guarded

ROOT = Path(__file__).parents[2]
COLUMNS = ("outcome", "tests")
GAMES = ("breakout-84x84", "pong-104x80", "seaquest-84x84", "montezuma_revenge-104x80")
"""Games and sizes of frames for the comparison of the GPU's emulator with its host build, unless all games are
compared."""
EXTENSIONS = {
    "accel_rl.emulator._core": "ale-py plays, several times slower",
    "accel_rl.kernels._native": "torch computes on the host",
}


def files() -> list[str]:
    """Return the test files with tests that need a GPU."""
    paths = (ROOT / "tests").rglob("test_*.py")
    return sorted(str(path.relative_to(ROOT)) for path in paths if "mark.gpu" in path.read_text())


def command(bench: Bench, marks: str, file: Path) -> list[str]:
    """Return the command that runs the tests with the pytest marks `marks`, and writes their outcomes to a file."""
    workers = min(8, (os.cpu_count() or 1) // 2)
    options = ["-q", "-m", marks, "--continue-on-collection-errors", "-p", "benchmarks.gpu.outcomes"]
    if bench.games == "some":
        options += ["-k", " or ".join(("not plays_as_the_host_build", *GAMES))]
    if importlib.util.find_spec("xdist") is not None and workers > 1:
        options += ["-n", str(workers)]
    return [sys.executable, "-m", "pytest", *options, "--outcomes", str(file), *files()]


def measure(bench: Bench, marks: str) -> Result:
    """Run the tests with the pytest marks `marks` until the time of this part ends, and return the numbers of passed,
    failed and skipped tests."""
    if bench.device.startswith("sim"):
        return Result(COLUMNS, notes=["not run: pytest -m gpu needs a GPU that is not simulated"])
    if importlib.util.find_spec("pytest") is None:
        return Result(COLUMNS, notes=["not run: pytest is not installed"])
    return run(bench, command(bench, marks, file := bench.folder / "outcomes"), file)


def run(bench: Bench, command: list[str], file: Path) -> Result:
    """Run pytest, and save the outcomes of the completed tests once per second."""
    log = bench.folder / "pytest.log"
    with log.open("wb") as output, guarded(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT) as process:
        while process.poll() is None and bench.left:
            time.sleep(min(1.0, bench.left))
            bench.save(result(file))
        is_late = process.poll() is None
    outcome = result(file)
    if is_late:
        outcome.error = f"not all tests ended within {bench.seconds:.0f} s{'; ' * bool(outcome.error)}{outcome.error}"
    elif not outcome.rows:
        lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
        outcome.error = f"pytest: {lines[-1]}"
    return outcome


def result(file: Path) -> Result:
    """Return what the pytest plugin `benchmarks.gpu.outcomes` has written so far: the number of tests by outcome, and
    the reason for each test that did not pass."""
    # The file's last line is incomplete if it has no newline.
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    outcomes = [json.loads(line) for line in lines]
    counts = Counter(each["outcome"] for each in outcomes)
    failed = counts["failed"] + counts["error"]
    notes = [f"{each['outcome']}: {each['test']}: {each['why']}" for each in outcomes if each["outcome"] != "passed"]
    notes.sort(key=lambda note: note.startswith("skipped"))
    error = f"{failed} failed" if failed else ""
    return Result(COLUMNS, [[outcome, n] for outcome, n in counts.items()], notes=notes, error=error)


def missing_extensions() -> str:
    """Return a line that names the C++ extensions that are not compiled, or "" if all are compiled."""
    missing = [f"{name} ({instead})" for name, instead in EXTENSIONS.items() if importlib.util.find_spec(name) is None]
    return f"not built: {', '.join(missing)}; --build needs a C++17 compiler and pybind11" if missing else ""


def build_extensions() -> None:
    """Compile the C++ extensions in this checkout, or raise RunError with a message of one line."""
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise RunError(f"--build: setup.py build_ext --inplace failed: {lines[-1]}")
