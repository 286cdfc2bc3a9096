"""Type checkers accept scripts of users, and find each mistake; the types of settings are current."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(p for p in Path(__file__).parent.glob("*.py") if not p.name.startswith(("test_", "__")))
MISTAKES = Path(__file__).parent / "mistakes.py"


def test_the_types_of_settings_are_current():
    pytest.importorskip("ruff")
    file = ROOT / "docs/tools/settings_types.py"
    spec = importlib.util.spec_from_file_location("settings_types", file)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.OUT.read_text() == tool.page(), "run python docs/tools/settings_types.py"


def wrong_lines(output: str) -> dict[str, set[int]]:
    """Map the name of each script to the lines in which a type checker found errors."""
    result: dict[str, set[int]] = {script.name: set() for script in SCRIPTS}
    for name, line in re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?: -|:) error", output):
        if name in result:
            result[name].add(int(line))
    return result


def check(command: list[str], folder: Path) -> None:
    done = subprocess.run([*command, *map(str, SCRIPTS)], capture_output=True, text=True, cwd=folder)
    lines = MISTAKES.read_text().splitlines()
    expected = {i for i, line in enumerate(lines, 1) if line.endswith("# error")}
    found = wrong_lines(done.stdout)
    assert found.pop(MISTAKES.name) == expected, done.stdout + done.stderr
    assert not any(found.values()), done.stdout


@pytest.mark.slow
def test_mypy(tmp_path):
    pytest.importorskip("mypy")
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={tmp_path}"]
    check([sys.executable, "-m", "mypy", *options], ROOT)


@pytest.mark.slow
def test_pyright(tmp_path):
    if shutil.which("pyright") is None:
        pytest.skip("pyright is not installed")
    check(["pyright", "--pythonpath", sys.executable], tmp_path)
