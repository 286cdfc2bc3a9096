"""The documentation's example of a user's algorithm trains through the console script."""

import csv
import json
import os
import re
from pathlib import Path

from tests.integration.runs import run

ROOT = Path(__file__).parents[2]


def test_the_documented_subclass_trains_and_resumes(tmp_path):
    page = (ROOT / "docs/extending.md").read_text()
    code = next(c for c in re.findall(r"```python\n(.*?)```", page, re.S) if "# my_ppo.py" in c)
    assert len(code.splitlines()) <= 30
    (tmp_path / "my_ppo.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    args = ("train", "my_ppo:MyPPO", "--env", "CartPole-v1", "--env-steps", 800, "--horizon", 25,
            "--minibatch", 100, "--logit-penalty", 1e-2, "--engine", "in-process",
            "--run-dir", "run", "--evaluation.interval", 0)  # fmt: skip
    done = run(*args, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["algo"]["logit_penalty"] == 1e-2 and config["algorithm"] == "my_ppo:MyPPO"
    with open(tmp_path / "run" / "metrics.csv", newline="") as f:
        assert float(next(csv.DictReader(f))["penalty"]) > 0
    done = run("resume", "run", "--trust", "--env-steps", 1600, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr


def test_an_environment_of_the_users_own(tmp_path):
    (tmp_path / "my_env.py").write_text(
        "import gymnasium\n\n\ndef make():\n    return gymnasium.make('CartPole-v1', max_episode_steps=30)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    args = ("train", "a2c", "--env", "my_env:make", "--env-steps", 400, "--workers", 1, "--run-dir", "run")
    done = run(*args, "--evaluation.steps", 100, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
