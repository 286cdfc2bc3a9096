"""The example of a user's algorithm in docs/extending.md trains by the command line."""

import csv
import json
import os
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from accel_rl.agents.policy import PolicyAgent
from accel_rl.algos.dqn import DQN
from accel_rl.cli.main import main
from tests.integration.runs import run
from tests.marks import slow_unless

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


SIZE = "--env tests.catch:make --replay.size 800 --replay.start 64 --envs 8 --horizon 4 --target-interval 32"
SIZE += " --engine in-process --evaluation.interval 0 --torch-threads 1"
MODES = {
    "lockstep": "",
    "concurrent": "--schedule concurrent",
    "prioritized": "--replay.prioritized --n-step 3",
    "ranks": "--ranks 2",
    "async": "--ranks 2 --update async",
}


# The lockstep schedule is tested in tests/test_docs_run.py.
@pytest.mark.parametrize("mode", slow_unless("concurrent".__eq__, MODES))
def test_the_documented_value_learner_runs_in_every_mode(mode, tmp_path, monkeypatch):
    page = (ROOT / "docs/extending.md").read_text()
    code = next(c for c in re.findall(r"```python\n(.*?)```", page, re.S) if "# soft_q.py" in c)
    assert len(code.splitlines()) <= 60
    (tmp_path / "soft_q.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    args = f"train soft_q:SoftQ {SIZE} {MODES[mode]} --env-steps 256 --run-dir {tmp_path}/run"
    assert main(args.split()) == 0
    with open(tmp_path / "run/metrics.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert int(rows[-1]["updates"]) > 0 and float(rows[-1]["td_error"]) > 0
    assert main(["resume", str(tmp_path / "run"), "--trust", "--env-steps", "384"]) == 0


def test_an_inherited_setting_that_is_not_read_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = f"train tests.integration.test_subclass:Unmoved {SIZE} --env-steps 128 --run-dir run --epsilon 0.5 --dueling"
    assert main(args.split()) == 0
    with open("run/metrics.csv", newline="") as f:
        assert int(list(csv.DictReader(f))[-1]["updates"]) > 0
    said = Path("run/events.log").read_text()
    assert "--algo.dueling True has no effect: Unmoved does not read it" in said
    assert "--algo.epsilon 0.5 has no effect: Unmoved does not read it" in said and said.count("has no effect") == 2


class PlainNetwork(nn.Module):
    """Action values without the options of QNetwork, such as noise."""

    def __init__(self, spec):
        super().__init__()
        self.n_actions = spec.n_actions
        self.layers = nn.Sequential(nn.Flatten(), nn.LazyLinear(spec.n_actions))
        self.q(torch.zeros(1, spec.stack, *spec.frame_shape))

    def q(self, obs):
        return self.layers(obs.float())

    forward = q


class Unmoved(DQN):
    """A DQN whose agent does not explore, so that the settings of epsilon have no effect."""

    def build_agent(self, spec):
        return PolicyAgent(PlainNetwork(spec), spec.n_actions)

    def schedules(self, progress, env_steps):
        return {"learning_rate": 1e-3}


@pytest.mark.slow
def test_an_environment_of_the_users_own(tmp_path):
    (tmp_path / "my_env.py").write_text(
        "import gymnasium\n\n\ndef make():\n    return gymnasium.make('CartPole-v1', max_episode_steps=30)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    args = ("train", "a2c", "--env", "my_env:make", "--env-steps", 400, "--workers", 1, "--run-dir", "run")
    done = run(*args, "--evaluation.steps", 100, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
