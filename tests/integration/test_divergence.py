"""Updates with non-finite losses are skipped and counted. After many skipped updates, the run ends, with a checkpoint
whose parameters are finite."""

import os
from pathlib import Path

import torch

from accel_rl.checkpoints.checkpoint import Checkpoints
from tests.integration.runs import rows, run

ROOT = Path(__file__).parents[2]

ENV = """
import gymnasium
import numpy as np


class Poisoned(gymnasium.Wrapper):
    steps = 0

    def step(self, action):
        obs, reward, *flags = self.env.step(action)
        Poisoned.steps += 1
        return (obs, float("nan") if {when} else reward, *flags)


def make():
    return Poisoned(gymnasium.make("CartPole-v1"))
"""


def train(tmp_path, when):
    (tmp_path / "poisoned.py").write_text(ENV.format(when=when))
    return run(
        *("train", "a2c", "--env", "poisoned:make", "--engine", "in-process", "--envs", 4, "--env-steps", 1000),
        *("--evaluation.interval", 0, "--checkpoint.interval", 500, "--log.interval", 100, "--run-dir", "run"),
        *("--decorrelation-steps", 0),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_a_few_bad_updates_are_skipped_and_counted(tmp_path):
    done = train(tmp_path, "Poisoned.steps in (400, 700)")
    assert done.returncode == 0, done.stderr
    table = rows(tmp_path / "run")
    assert int(table[0]["skipped_updates"]) == 0 and int(table[-1]["skipped_updates"]) == 2
    _, state = Checkpoints(tmp_path / "run" / "checkpoints").load_latest()
    assert all(torch.isfinite(x).all() for x in state["learner"]["network"].values())


def test_many_in_a_row_end_the_run(tmp_path):
    done = train(tmp_path, "Poisoned.steps > 500")
    assert done.returncode == 1
    line = done.stderr.strip().splitlines()[-1]
    assert "20 updates in a row" in line and "the last good checkpoint is at 500 env steps" in line
    at, state = Checkpoints(tmp_path / "run" / "checkpoints").load_latest()
    assert all(torch.isfinite(x).all() for x in state["learner"]["network"].values())
    assert at == 500
