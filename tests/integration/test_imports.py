"""An installed accel_rl runs in a current folder that is a source tree without compiled modules."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.runs import run

ROOT = Path(__file__).parents[2]
SMALL = ["--envs", "4", "--horizon", "8", "--minibatch", "32", "--env-steps", "64", "--evaluation.interval", "0"]
SMALL += ["--decorrelation-steps", "0"]
# A program that, like the console script accel-rl, does not import modules of the current folder.
ACCEL_RL = f"import sys; sys.path[0] = {str(ROOT)!r}; from accel_rl.cli.main import main; sys.exit(main())"
BROKEN = """
import gymnasium

class Broken(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Discrete(2)
    count = 0

    def reset(self, seed=None, options=None):
        self.count += 1
        if self.count > 1:
            raise ArithmeticError("two lines\\nof text")
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, True, False, {}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    for package in ("accel_rl", "experiments", "launch"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    (tmp_path / "setup.py").touch()
    return tmp_path


def accel_rl(folder: Path, *arguments: str) -> str:
    """Run an accel-rl command whose current folder is `folder`, and return the command's output."""
    command = [sys.executable, "-c", ACCEL_RL, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not built" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def played(run: Path) -> str:
    return json.loads((run / "protocol.json").read_text())["backend"]


@pytest.mark.slow
def test_workers_and_ranks_have_the_emulator(checkout: Path) -> None:
    """The worker processes of each of two ranks can import the compiled emulator."""
    accel_rl(checkout, "train", "ppo", "--game", "pong", "--ranks", "2", "--run-dir", "two", *SMALL)
    assert played(checkout / "two") == "emulator"


@pytest.mark.slow
def test_a_sweep_has_the_emulator(checkout: Path) -> None:
    small = ["--seeds", "1", "2", "--override", "env-steps=400", "--out", "sweep"]
    accel_rl(checkout, "sweep", "experiments.cpu:pong_a2c", *small)
    runs = [file.parent for file in (checkout / "sweep").glob("*/config.json")]
    assert [played(run) for run in runs] == ["emulator"] * 2


def test_a_source_tree_says_which_installed_accel_rl_is_compiled(checkout: Path) -> None:
    script = f"import sys; sys.path.append({str(ROOT)!r}); from accel_rl.emulator.atari import core; core()"
    done = subprocess.run([sys.executable, "-c", script], cwd=checkout, capture_output=True, text=True)
    line = done.stderr.strip().splitlines()[-1]
    assert f"source tree {checkout / 'accel_rl'}" in line and f"installed in {ROOT / 'accel_rl'}" in line


def test_an_error_of_a_worker_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    done = run("train", "ppo", "--env", "broken:Broken", "--workers", "1", *SMALL, "--run-dir", "run", cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert "worker 0 (pid " in line and "ArithmeticError: two lines of text" in line and "run/events.log" in line
    assert "Traceback" in (tmp_path / "run" / "events.log").read_text()
