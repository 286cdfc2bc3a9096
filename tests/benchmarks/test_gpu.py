"""python -m benchmarks.gpu: its parts on the simulated GPU, its files, and impossible options."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accel_rl.system import hardware
from accel_rl.tuning.measured_training import rate
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import options
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.gpu.checks import counted, files
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.profiling import covered
from benchmarks.gpu.results import slug
from benchmarks.gpu.sizes import TINY
from benchmarks.harness.program import Case
from benchmarks.harness.table import cell

ROOT = Path(__file__).parents[2]
MISSING = (
    *("tyro", "rich", "gymnasium", "wandb", "psutil", "matplotlib", "tensorboard", "pybind11", "safetensors", "cv2"),
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
    """Run the command in a process of its own. path: before this checkout on PYTHONPATH."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)]))}
    command = [sys.executable, "-m", "benchmarks.gpu", "--simulated", "--tiny", *argv]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def parts_in(folder: Path) -> dict:
    return json.loads((folder / "gpu-simulated.json").read_text())["parts"]


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A folder that, on PYTHONPATH, leaves a process and its children torch, numpy and ale-py alone."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BLOCK)
    return str(tmp_path / "site")


@pytest.mark.slow
def test_torch_numpy_and_ale_py_are_enough(tmp_path: Path, bare: str) -> None:
    names = ["acting", "a2c", "replay"]
    done = run("--part", *names, "--out", str(tmp_path), path=bare)
    assert done.returncode == 0, done.stdout + done.stderr
    parts, page = parts_in(tmp_path), (tmp_path / "gpu-simulated.md").read_text()
    assert list(parts) == names
    for name, part in parts.items():
        assert part["rows"] and "error" not in part and part["command"].endswith(f"--part {name} --simulated --tiny")
        assert all(len(row) == len(part["columns"]) for row in part["rows"])
        assert f"## {name}" in page and f"## {name}" in done.stdout
    assert [g["bound"] for g in parts["a2c"]["goals"]] == [10.0, 100_000] and "not met" in page
    waits = {row[-1] for row in parts["acting"]["rows"] if row[1] != "random actions"}
    assert waits == {1.0}  # for its actions
    assert str(tmp_path) not in page.replace(str(tmp_path / "gpu-simulated"), "")


@pytest.mark.slow  # .ci/run runs every part so
def test_a_part_in_a_process_of_its_own(tmp_path: Path) -> None:
    done = run("--part", "replay", "--processes", "each", "--out", str(tmp_path))
    assert done.returncode == 0 and parts_in(tmp_path)["replay"]["rows"], done.stderr


@pytest.mark.slow
def test_every_part(tmp_path: Path, bare: str) -> None:
    """Those with worker processes, too."""
    done = run("--out", str(tmp_path), path=bare)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(parts_in(tmp_path)) == set(PARTS) - {"tests"}


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
    """Parts that measure nothing: one fails, one has no time."""

    def fails(bench: Bench) -> Result:
        raise ValueError("the GPU\nis hot")

    def works(bench: Bench) -> Result:
        return Result(("a", "b"), [[1, 0.5]], [Goal("speed", 2.0, 1.0)], ["a note"])

    made = {"tests": Part("fails", fails, 30), "acting": Part("works", works, 30), "pong": Part("long", works, 500)}
    monkeypatch.setattr(program, "PARTS", made)
    monkeypatch.setattr(options, "PARTS", made)
    monkeypatch.setattr(options, "_device", lambda *a: "cpu")
    monkeypatch.setattr("benchmarks.gpu.results.describe", lambda device: dict.fromkeys(
        ("memory_gib", "capability", "cuda", "cudnn"), None) | {"name": "Some GPU"})  # fmt: skip


def test_a_part_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path, made_up, capsys) -> None:
    argv = ["--out", str(tmp_path), "--processes", "one", "--minutes", "2"]
    assert program.main(argv) == 1
    found = json.loads((tmp_path / "gpu-some-gpu.json").read_text())
    parts = found["parts"]
    assert parts["tests"]["error"] == "ValueError: the GPU is hot" and parts["acting"]["goals"][0]["met"]
    out, err = capsys.readouterr()
    assert "left out, no time: pong; run: python -m benchmarks.gpu --part pong" in out and "failed: tests" in err
    page = (tmp_path / "gpu-some-gpu.md").read_text()
    assert "Failed: ValueError: the GPU is hot" in page and "| speed | 2.00 | at least 1.00 | met |" in page
    assert program.main([*argv, "--rest"]) == 1  # what failed is run again
    assert "acting" not in capsys.readouterr().err


def test_measurements_take_turns_within_their_time(tmp_path: Path) -> None:
    bench, order = Bench("cpu", replace(TINY, rounds=3), tmp_path, seconds=1e-9), []
    case = Case({"x": 1}, {name: lambda s, name=name: order.append(name) or s for name in "ab"})
    result = bench.run([lambda stack: case])
    assert order == ["a", "b"]  # one turn in any case
    assert result.cases[0]["measurements"] == {"a": [TINY.shortest], "b": [TINY.shortest]}
    assert result.rows[0][:3] == [1, "a", TINY.shortest] and len(result.columns) == len(result.rows[0])
    assert rate(lambda: 1.0, 0.0) > 0


def test_small_functions() -> None:
    assert slug("NVIDIA H200") == "nvidia-h200"
    assert [cell(x) for x in (None, 12_345.6, 45.67, 0.5, 3, "x")] == ["-", "12,346", "45.7", "0.50", "3", "x"]
    assert covered([(0, 2), (1, 3), (5, 6)]) == 4 and covered([]) == 0
    assert counted("1 failed, 12 passed, 3 skipped, 9 deselected in 4.2s") == {"failed": 1, "passed": 12, "skipped": 3}
    assert not Goal("x", 12.0, 10.0, at_least=False).to_dict()["met"]
    assert "tests/distributed/test_nccl.py" in files()
