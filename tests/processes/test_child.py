"""A child process imports the same modules as its parent, whatever the current folder, PYTHONPATH and flags are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARENT = """
import subprocess, sys
{before}
import accel_rl
from accel_rl.processes import child
{after}
done = subprocess.run(child.command("tells", "a word"), env=child.environment(), capture_output=True, text=True)
print(done.stdout, end="")
print(done.stderr, end="", file=sys.stderr)
"""
CHILD = """
import os, sys
import accel_rl.envs
from accel_rl.processes.child import VARIABLE
print(accel_rl.envs.__file__, sys.argv[1:], VARIABLE in os.environ, os.path.abspath(sys.path[0]), __name__)
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with another copy of accel_rl, without compiled modules."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "accel_rl", folder / "accel_rl", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A folder with a user's module."""
    (tmp_path / "tells.py").write_text(CHILD)
    return tmp_path


def told(folder: Path, before: str, after: str = "", flags: tuple[str, ...] = (), **variables: str) -> str:
    """Run a program in `folder` that starts a child process, and return the child's output."""
    script = PARENT.format(before=before, after=after)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *flags, "-c", script], cwd=folder, env={**clean, **variables}, capture_output=True, text=True
    )
    assert not done.stderr, done.stderr
    return done.stdout.strip()


def expected(user: Path, root: Path = ROOT) -> str:
    return f"{root}/accel_rl/envs/__init__.py ['a word'] False {user} __main__"


@pytest.mark.parametrize("flags", [(), ("-P",), ("-I",), ("-E", "-s")])
def test_a_path_that_only_the_parent_has(flags: tuple[str, ...], user: Path) -> None:
    assert told(user, f"sys.path[:0] = [{str(user)!r}, {str(ROOT)!r}]", flags=flags) == expected(user)


def test_in_a_folder_with_another_accel_rl(checkout: Path, user: Path) -> None:
    before = f"sys.path[:0] = [{str(user)!r}, {str(ROOT)!r}]"
    assert told(checkout, before) == expected(user)
    assert told(checkout, before, PYTHONPATH=str(checkout)) == expected(user)


def test_the_path_changes_after_the_import(checkout: Path, user: Path) -> None:
    """For a user's `module:Class`, accel_rl puts the current folder first in sys.path after accel_rl was imported."""
    after = f"sys.path[:0] = [{str(user)!r}, {str(checkout)!r}]"
    assert told(checkout, f"sys.path.insert(0, {str(ROOT)!r})", after) == expected(user)
    after = f"sys.path.remove({str(ROOT)!r}); sys.path.insert(0, {str(user)!r})"
    assert told(checkout, f"sys.path.insert(0, {str(ROOT)!r})", after) == expected(user)


def test_the_current_folder_of_python_m(checkout: Path) -> None:
    (checkout / "tells.py").write_text(CHILD)
    assert told(checkout, "assert sys.path[0] == ''") == expected(checkout, checkout)


HANGS = """
import atexit, ctypes, os, sys
from accel_rl.processes.child import run_program
libc = ctypes.CDLL(None)
libc.__cxa_atexit(libc.pause, None, None)  # A destructor of a C++ library that waits for ever.
def run():
    atexit.register(print, "Python's functions are called", end="")
    {code}
run_program(run)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
@pytest.mark.parametrize(
    ("code", "exit_code", "error"),
    [
        ("return 3", 3, ""),
        ("pass", 0, ""),
        ("sys.exit(4)", 4, ""),
        ("sys.exit('a message')", 1, "a message\n"),
        ("raise OSError('traceback')", 1, "OSError: traceback\n"),
    ],
)  # fmt: skip
def test_a_program_ends_without_the_destructors_of_libraries(code: str, exit_code: int, error: str) -> None:
    script = HANGS.format(code=code)
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == exit_code and done.stderr.endswith(error), done.stderr
    assert done.stdout == "Python's functions are called" and bool(error) == bool(done.stderr)


def test_a_fork_of_a_program_ends_with_its_own_exit_code() -> None:
    code = "pid = os.fork(); sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if pid else 7)"
    script = HANGS.format(code=code).replace("libc.__cxa", "None and libc.__cxa")
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 7, done.stderr
