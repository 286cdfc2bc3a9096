"""The examples of a user's engine, exchange and schedule in docs/extending.md run on one rank and on two ranks."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.cli.main import main
from accel_rl.settings.doors import find_engine, find_gradient_sync, find_schedule
from accel_rl.text.errors import ConfigError
from tests.integration.runs import run
from tests.marks import slow

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
DOORS = {
    "recording": ("--sampler.engine", "recording:RecordingEngine"),
    "top_k": ("--update", "top_k:TopK"),
    "late": ("--schedule", "late:Late"),
}


@pytest.fixture
def folder(tmp_path):
    """A folder with the example modules of docs/extending.md, each of which has at most 40 lines."""
    page = (ROOT / "docs/extending.md").read_text()
    for name in DOORS:
        code = next(c for c in re.findall(r"```python\n(.*?)```", page, re.S) if f"# {name}.py" in c)
        assert len(code.splitlines()) <= 40
        (tmp_path / f"{name}.py").write_text(code)
    return tmp_path


def train(folder, name, *more):
    args = ("train", "a2c", "--env", "CartPole-v1", "--envs", 8, "--horizon", 5, "--evaluation.interval", 0)
    done = run(*args, "--run-dir", name, *more, cwd=folder, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr


def newest(folder, rank=0):
    """Return the state of a rank's newest checkpoint."""
    path = folder / "checkpoints" if not rank else folder / f"rank-{rank}" / "checkpoints"
    checkpoints = Checkpoints(path)
    return load(checkpoints.path(checkpoints.steps()[-1]))


@pytest.mark.parametrize("ranks", [1, slow(2)])
def test_a_resumed_run_equals_an_uninterrupted_one(folder, ranks):
    doors = [x for door in DOORS.values() for x in door] + ["--ranks", ranks]
    train(folder, "whole", *doors, "--env-steps", 1280)
    recorded = {p.name: p.read_bytes() for p in folder.glob("actions-*.bin")}
    assert len(recorded) == ranks
    assert all(set(np.frombuffer(x, np.int64)) == {0, 1} for x in recorded.values())
    assert sum(len(x) for x in recorded.values()) == 8 * 1280  # int64
    for path in folder.glob("actions-*.bin"):
        path.unlink()
    train(folder, "cut", *doors, "--env-steps", 1120)
    done = run("resume", "cut", "--trust", "--env-steps", 1280, cwd=folder, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert {p.name: p.read_bytes() for p in folder.glob("actions-*.bin")} == recorded
    a, b = newest(folder / "whole"), newest(folder / "cut")
    assert a["schedule"]["waited"] == b["schedule"]["waited"] == 1000
    sync = a["learner"]["gradient_sync"]
    assert sync["rest"].abs().max() > 0 and torch.equal(sync["rest"], b["learner"]["gradient_sync"]["rest"])
    for name, x in a["learner"]["network"].items():
        assert torch.equal(x, b["learner"]["network"][name]), name


@pytest.mark.parametrize(
    ("find", "name", "line"),
    [
        (find_engine, "tests.catch:Catch", "--sampler.engine tests.catch:Catch: it is not an Engine"),
        (find_gradient_sync, "tests.catch:Catch", "--update tests.catch:Catch: it is not a subclass of"),
        (find_schedule, "tests.catch:Nothing", "--schedule 'tests.catch:Nothing': tests.catch has no Nothing"),
    ],
)
def test_another_class_is_refused(find, name, line):
    with pytest.raises(ConfigError, match=re.escape(line)):
        find(name)


@pytest.mark.parametrize(
    ("flag", "value", "nearest"),
    [("--sampler.engine", "worker", "workers"), ("--update", "asinc", "async"), ("--schedule", "lockstap", "lockstep")],
)
def test_an_unknown_name_is_one_line(tmp_path, capsys, flag, value, nearest):
    assert main(["train", "dqn", "--game", "pong", flag, value, "--run-dir", str(tmp_path / "run")]) == 2
    assert not (tmp_path / "run").exists()
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"{flag} {value!r}: must be one of" in line and nearest in line and "module:Class" in line
