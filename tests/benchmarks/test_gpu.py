"""python -m benchmarks.gpu: the benchmark's parts on the simulated GPU, the written files, and impossible options."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from accel_rl.machine import hardware
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import checks, options
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.gpu.guarded import guarded
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.profiling import covered
from benchmarks.gpu.results import Results, slug
from benchmarks.gpu.sizes import TINY
from benchmarks.harness.measured_training import rate
from benchmarks.harness.program import Case
from benchmarks.harness.table import cell
from tests.integration.runs import wait_for

ROOT = Path(__file__).parents[2]
MISSING = (
    *("rich", "gymnasium", "wandb", "matplotlib", "tensorboard", "pybind11", "safetensors", "cv2"),
    *("pytest", "imageio_ffmpeg"),
)
BLOCK = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {MISSING!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run(*argv: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run `python -m benchmarks.gpu` in a new process, with `path` before this checkout on PYTHONPATH."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)]))}
    command = [sys.executable, "-m", "benchmarks.gpu", "--simulated", "--tiny", *argv]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def parts_in(folder: Path, name: str = "gpu-simulated") -> dict:
    return {file.stem: json.loads(file.read_text()) for file in (folder / name).glob("*.json")}


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A folder for PYTHONPATH. Processes with this folder can import only torch, numpy, psutil and ale-py of the
    installed packages."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BLOCK)
    return str(tmp_path / "site")


@pytest.mark.slow
def test_torch_numpy_psutil_and_ale_py_are_enough(tmp_path: Path, bare: str) -> None:
    names = ["acting", "a2c", "replay"]
    done = run("--part", *names, "--out", str(tmp_path), path=bare)
    assert done.returncode == 0, done.stdout + done.stderr
    parts, page = parts_in(tmp_path), (tmp_path / "gpu-simulated.md").read_text()
    assert set(parts) == set(names)
    for name, part in parts.items():
        assert part["rows"] and not part["error"] and part["command"].endswith(f"--part {name} --simulated --tiny")
        assert all(len(row) == len(part["columns"]) for row in part["rows"])
        assert f"## {name}" in page and f"## {name}" in done.stdout
    assert [g["bound"] for g in parts["a2c"]["goals"]] == [10.0, 100_000] and "not met" in page
    waits = {row[-1] for row in parts["acting"]["rows"] if row[1] != "random actions"}
    assert waits == {1.0}  # for its actions
    assert str(tmp_path) not in page.replace(str(tmp_path / "gpu-simulated"), "")


@pytest.mark.slow  # .ci/run runs every part in a separate process.
def test_a_part_in_a_process_of_its_own(tmp_path: Path) -> None:
    done = run("--part", "replay", "--processes", "each", "--out", str(tmp_path))
    assert done.returncode == 0 and parts_in(tmp_path)["replay"]["rows"], done.stderr


@pytest.mark.slow
def test_every_part(tmp_path: Path, bare: str) -> None:

    done = run("--out", str(tmp_path), path=bare)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(parts_in(tmp_path)) == set(PARTS) - {"tests", "slow-tests"}


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        ([], ["no GPU", "--simulated --tiny"]),
        (["--simulated", "--part", "dqm"], ["--part dqm", "nearest: dqn"]),
        (["--simulated", "--seconds", "0"], ["--seconds 0", "above 0"]),
        (["--simulated", "--seconds", "900"], ["--seconds 900", "540"]),
        (["--simulated", "--seconds", "long"], ["--seconds", "long"]),
        (["--simulated", "--minutes", "-1"], ["--minutes -1"]),
        (["--simulated", "--device", "cuda:0"], ["--device cuda:0", "--simulated"]),
        (["--simulated", "--processes", "none"], ["--processes", "each"]),
        (["--simulated", "--tyni"], ["--tyni"]),
        (["--simulated", "--out", __file__], ["--out", "is a file"]),
    ],
)
def test_one_line_and_exit_code_2(argv, parts, capsys, monkeypatch) -> None:
    monkeypatch.setattr(hardware, "gpu_count", lambda: 0)
    monkeypatch.setattr(options, "_device", lambda *a: "sim:0") if "cuda:0" not in argv and argv else None
    assert program.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and all(part in err for part in parts), err


def test_the_list_of_parts(capsys) -> None:
    assert program.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(PARTS)


@pytest.fixture
def made_up(monkeypatch):
    """Replace the parts of the benchmark by short functions, of which one fails and one exceeds the time limit."""

    def fails(bench: Bench) -> Result:
        raise ValueError("the GPU\nis hot")

    def works(bench: Bench) -> Result:
        return Result(("a", "b"), [[1, 0.5]], [Goal("speed", 2.0, 1.0)], ["a note"])

    made = {"tests": Part("fails", fails, 30), "acting": Part("works", works, 30), "pong": Part("long", works, 500)}
    monkeypatch.setattr(program, "PARTS", made)
    monkeypatch.setattr(options, "PARTS", made)
    monkeypatch.setattr("benchmarks.gpu.results.PARTS", made)
    monkeypatch.setattr(options, "_device", lambda *a: "cpu")
    monkeypatch.setattr("benchmarks.gpu.results.describe", lambda device: dict.fromkeys(
        ("memory_gib", "capability", "cuda", "cudnn"), None) | {"name": "Some GPU"})  # fmt: skip


def test_a_part_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path, made_up, capsys) -> None:
    argv = ["--out", str(tmp_path), "--processes", "one", "--minutes", "2"]
    assert program.main(argv) == 1
    parts = parts_in(tmp_path, "gpu-some-gpu")
    assert parts["tests"]["error"] == "ValueError: the GPU is hot" and parts["acting"]["goals"][0]["met"]
    out, err = capsys.readouterr()
    assert "left out, no time: pong; repeat the command" in out and "failed: tests" in err
    page = (tmp_path / "gpu-some-gpu.md").read_text()
    assert "Failed: ValueError: the GPU is hot" in page and "| speed | 2.00 | at least 1.00 | met |" in page
    assert program.main(argv) == 1  # A repeated command runs the failed part again.
    out, err = capsys.readouterr()
    assert "measured before: acting;" in out and "acting: works" not in err and "tests: fails" in err
    # A command with other options runs all parts again.
    assert program.main([*argv, "--seconds", "20"]) == 1
    err = capsys.readouterr().err
    assert err.index("tests: fails") < err.index("acting: works") < err.index("pong: long")


def test_what_failed_is_repeated_after_what_is_missing(tmp_path: Path, made_up, capsys) -> None:
    results = Results(tmp_path, "cpu")
    results.put("tests", Result((), error="too hot").to_dict(), 1.0, "python -m benchmarks.gpu --part tests")
    results.put("acting", Result(()).to_dict(), 1.0, "python -m benchmarks.gpu --part acting", finished=False)
    assert "Not finished" in results.page.read_text()
    assert program.main(["--out", str(tmp_path), "--processes", "one"]) == 1
    err = capsys.readouterr().err
    assert err.index("acting: works") < err.index("pong: long") < err.index("tests: fails")


def ended(pid: int) -> bool:
    """Return whether a process has ended. A zombie process counts as ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def written_pid(file: Path) -> int:
    """Wait until a program has written a process id to the file, and return the id."""
    wait_for(lambda: file.exists() and file.read_text(), what=file.name)
    return int(file.read_text())


ESCAPED = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(other.pid))
time.sleep(600)
"""
PARENT = """
import sys
from benchmarks.gpu.guarded import guarded
with guarded([sys.executable, "-c", *sys.argv[1:]]) as process:
    process.wait()
"""


def test_a_guarded_program_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with guarded([sys.executable, "-c", ESCAPED, str(file)]) as process:
        pid = written_pid(file)
    assert process.returncode == -signal.SIGKILL
    wait_for(lambda: ended(pid), what="end of the process")


def test_a_guarded_program_ends_with_a_killed_parent(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, ESCAPED, str(file)], cwd=ROOT)
    pid = written_pid(file)
    parent.kill()
    parent.wait()
    wait_for(lambda: ended(pid), what="end of the process")


def measured(folder: Path) -> dict:
    """Return the results of the benchmark's part `replay` in a folder, or {} before the first measurement."""
    part = parts_in(folder).get("replay", {})
    return part if part.get("rows") else {}


@pytest.mark.slow
def test_a_killed_command_is_resumed_by_repeating_it(tmp_path: Path) -> None:
    argv = ["--simulated", "--tiny", "--part", "replay", "parr", "--processes", "each", "--seconds", "6"]
    command = [sys.executable, "-m", "benchmarks.gpu", *argv, "--out", str(tmp_path)]
    killed = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_for(lambda: measured(tmp_path), what="first measurement")
    part = measured(tmp_path)
    killed.kill()
    killed.wait()
    assert not part["finished"] and "Not finished" in (tmp_path / "gpu-simulated.md").read_text()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "measured before" not in done.stdout, done.stderr
    assert all(part["finished"] for part in parts_in(tmp_path).values()) and len(parts_in(tmp_path)) == 2
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0 and "measured before: replay parr;" in again.stdout and not again.stderr


IMPATIENT = """
import sys
from benchmarks.gpu import __main__ as program
program.limit_s = lambda seconds: 20.0
sys.exit(program.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_part_that_does_not_end_keeps_what_it_measured(tmp_path: Path) -> None:
    argv = ["--simulated", "--tiny", "--part", "replay", "--processes", "each", "--seconds", "60"]
    done = subprocess.run(
        [sys.executable, "-c", IMPATIENT, *argv, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and "failed: replay" in done.stderr
    part = measured(tmp_path)
    assert part["finished"] and part["error"] == "killed after 20 s" and part["cases"][0]["median"]


TESTS = {
    "test_a.py": "import pytest, no_such_package",
    "test_b.py": """
import pytest, time
def test_passes(): pass
def test_fails(): assert 1 == 2
@pytest.mark.skip(reason="too hot")
def test_skipped(): pass
def test_hangs(): time.sleep(600)
def test_later(): pass
""",
}


@pytest.mark.slow
def test_the_outcomes_of_tests_remain_if_a_test_hangs(tmp_path: Path) -> None:
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)
    saved: list[Result] = []
    bench, file = Bench("cuda:0", TINY, tmp_path, 10.0, saved.append), tmp_path / "outcomes"
    options = ["--continue-on-collection-errors", "-p", "benchmarks.gpu.outcomes", "--outcomes", str(file)]
    result = checks.run(
        bench, [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), *options, str(tmp_path)], file
    )
    assert result.rows == [["error", 1], ["passed", 1], ["failed", 1], ["skipped", 1]] == saved[-1].rows
    assert result.error == "not all tests ended within 10 s; 2 failed"
    assert [note.partition(":")[0] for note in result.notes] == ["error", "failed", "skipped"]
    assert "no_such_package" in result.notes[0] and "assert 1 == 2" in result.notes[1] and "too hot" in result.notes[2]


def test_the_command_of_the_tests(tmp_path: Path) -> None:
    some, all_games = (
        checks.command(Bench("cuda:0", TINY, tmp_path, 1.0, games=g), "gpu", tmp_path) for g in ("some", "all")
    )
    assert (
        some[some.index("-k") + 1].startswith("not plays_as_the_host_build or breakout-84x84") and "-k" not in all_games
    )
    assert "--continue-on-collection-errors" in some and "tests/distributed/test_nccl.py" in some


def test_measurements_take_turns_within_their_time(tmp_path: Path) -> None:
    bench, order = Bench("cpu", replace(TINY, rounds=3), tmp_path, seconds=1e-9), []
    case = Case({"x": 1}, {name: lambda s, name=name: order.append(name) or s for name in "ab"})
    result = bench.run([lambda stack: case])
    assert order == ["a", "b"]  # Each of the variants a and b is measured once, although the time is up.
    assert result.cases[0]["measurements"] == {"a": [TINY.shortest], "b": [TINY.shortest]}
    assert result.rows[0][:3] == [1, "a", TINY.shortest] and len(result.columns) == len(result.rows[0])
    assert rate(lambda: 1.0, 0.0) > 0


def test_small_functions() -> None:
    assert slug("NVIDIA H200") == "nvidia-h200"
    assert [cell(x) for x in (None, 12_345.6, 45.67, 0.5, 3, "x")] == ["-", "12,346", "45.7", "0.50", "3", "x"]
    assert covered([(0, 2), (1, 3), (5, 6)]) == 4 and covered([]) == 0
    assert not Goal("x", 12.0, 10.0, at_least=False).to_dict()["met"]
