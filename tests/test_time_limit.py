"""The time limit kills a hanging test and the processes that the test started."""

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pytest_timeout")

ROOT = Path(__file__).parents[1]
WAITING = """
import subprocess, sys, time

def test_that_waits_for_a_child_in_its_finally():
    # `sh` ends at once, so that one child has no parent.
    subprocess.run(["sh", "-c", "sleep 987 & echo $! > orphan"])
    child = subprocess.Popen(["sleep", "987"])
    print(child.pid, file=open("child", "w"))
    try:
        time.sleep(987)
    finally:
        child.wait()

def test_after_it():
    pass
"""
ENDLESS = """
import time

def test_that_no_exception_ends():
    while True:
        try:
            time.sleep(987)
        except BaseException:
            pass

def test_after_it():
    pass
"""


def run(folder: Path, test: str, *options: str) -> str:
    (folder / "test_hanging.py").write_text(textwrap.dedent(test))
    command = [sys.executable, "-m", "pytest", "-p", "tests.time_limit", "--timeout", "1", *options, "test_hanging.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
    )
    return done.stdout


@pytest.mark.slow
def test_its_child_processes_are_killed(tmp_path: Path) -> None:
    said = run(tmp_path, WAITING)
    assert "its child processes are killed" in said and "1 failed, 1 passed" in said, said
    assert "Timeout" in said
    for name in ("child", "orphan"):
        with contextlib.suppress(psutil.NoSuchProcess):
            assert psutil.Process(int((tmp_path / name).read_text())).status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_its_process_is_killed(tmp_path: Path, options: tuple[str, ...]) -> None:
    if options:
        pytest.importorskip("xdist")
    said = run(tmp_path, ENDLESS, *options)
    assert "test_hanging.py" in said and "in test_that_no_exception_ends" in said, said
    if options:
        assert "1 failed, 1 passed" in said, said
