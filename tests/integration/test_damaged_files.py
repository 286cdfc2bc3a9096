"""After a change of one byte in any file of a run, each command of accel-rl gives right results or ends with one
line."""

import os
import random
import shutil
from pathlib import Path

import pytest

from accel_rl.cli.main import main
from accel_rl.metrics.plot import read_columns
from tests.integration.runs import run
from tests.marks import slow
from tests.report.conftest import savefig  # noqa: F401  # the fixture that replaces the rendering of plots

SMALL = (
    *("ppo", "--env", "CartPole-v1", "--engine", "in-process", "--torch-threads", 1, "--envs", 4, "--horizon", 10),
    *("--minibatch", 20, "--env-steps", 160, "--decorrelation-steps", 0, "--checkpoint.interval", 40),
    *("--log.interval", 40),
    *("--evaluation.interval", 80, "--evaluation.episodes", 2, "--callback", "SaveBest"),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    done = run("train", *SMALL, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.stat().st_size)


def damaged(file: Path, rng: random.Random, value: int | None = None) -> str:
    """Set a random byte of a file to `value`, or flip a bit of this byte. Returns a description of the change."""
    data = bytearray(file.read_bytes())
    i = rng.randrange(len(data))
    old = data[i]
    data[i] = old ^ 1 << rng.randrange(8) if value is None else value
    file.write_bytes(data)
    return f"{file.name}, byte {i} of {len(data)}: {old} -> {data[i]}"


def outcome(capfd, *words):
    """Run a command in this process. Returns the command's exit code and output."""
    capfd.readouterr()
    code = main([str(word) for word in words])
    captured = capfd.readouterr()
    return code, captured.out + captured.err


READERS = {
    "runs": lambda folder, out: (folder.parent,),
    "plot": lambda folder, out: (folder, "--out", out / "curve.png"),
    "report": lambda folder, out: (folder, "--out", out / "report", "--reps", 5),
}
"""Maps each command that reads no checkpoint to a function that returns its arguments."""
USERS = {
    "evaluate": lambda folder, out: (folder, "--episodes", 1),
    "resume": lambda folder, out: (folder, "--env-steps", 200),
}


@pytest.mark.slow
def test_one_changed_byte_is_at_most_one_line(finished, tmp_path, capfd):
    """One byte of each file of the run is changed in turn, except for files of older checkpoints and evaluations."""
    rng = random.Random(1)
    for name in files(finished):
        is_top = "/" not in name
        if not is_top and "0160" not in name:
            continue
        commands = READERS if name.endswith(".log") else READERS | {"resume": USERS["resume"]} if is_top else USERS
        for kind in (None, 0xFF, ord("\n")) if name.endswith(".csv") else (None,):
            folder = tmp_path / "runs" / "run"
            shutil.rmtree(folder.parent, ignore_errors=True)
            shutil.copytree(finished, folder)
            what = damaged(folder / name, rng, kind)
            for command, arguments in commands.items():
                code, text = outcome(capfd, command, *arguments(folder, tmp_path))
                assert code in (0, 1, 2) and "Traceback" not in text, (what, command, text)
                assert code == 0 or text.strip().count("\n") <= 12, (what, command, text)


@pytest.mark.parametrize("value", [0xFF, ord("\n"), *map(slow, (ord("s"), ord(","), ord('"'), 0))])
@pytest.mark.parametrize("column", ["wall_s", "episodes", "cpu_s", "env_steps"])
def test_a_damaged_cell_of_metrics_blocks_nothing(finished, tmp_path, column, value, warned):
    """If one cell of metrics.csv is damaged, other rows can be read, and the run can be resumed."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    lines = (folder / "metrics.csv").read_bytes().split(b"\n")
    place = lines[0].split(b",").index(column.encode())
    cells = lines[2].split(b",")
    cells[place] = bytes([value]) + cells[place][1:]
    lines[2] = b",".join(cells)
    (folder / "metrics.csv").write_bytes(b"\n".join(lines))
    steps, _ = read_columns(folder, "env_steps", ["score", column])[column]
    # The damaged cell "80" of env steps may become 0.
    assert len(steps) >= 2 and set(steps) <= {0, 40, 80, 120, 160}
    assert any("metrics.csv cannot be read and count as empty" in line for line in warned)
    if column == "wall_s" and value in (0xFF, ord("\n")):
        done = run("resume", folder, "--env-steps", 200, env=dict(os.environ))
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        assert read_columns(folder, "env_steps", ["score"])["score"][0][-1] == 200
