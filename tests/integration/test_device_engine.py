"""Training on environments of the learner's device equals training with worker processes, to the last number."""

import json
import shutil
from pathlib import Path

import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.checkpoints.state_tree import encode
from tests.integration.runs import rows, run

pytest.importorskip("accel_rl.emulator._core")

SMALL = (
    *("--envs", 8, "--env.max-episode-steps", 60, "--decorrelation-steps", 20, "--device", "cpu", "--groups", 1),
    *("--checkpoint.interval", 0, "--log.interval", 200, "--evaluation.interval", 400, "--evaluation.steps", 100),
    *("--evaluation.max-episode-steps", 60),
)
Q = (
    *("--network", "a3c", "--batch-size", 8, "--intensity", 0.5),
    *("--replay.size", 600, "--replay.start", 200, "--target-interval", 160),
)
RUNS = {
    "a2c": ("a2c", "--game", "breakout", "--env-steps", 800),
    "ppo": ("ppo", "--game", "seaquest", "--env-steps", 2048, "--minibatch", 128, "--horizon", 64),
    "impala": ("impala", "--game", "pong", "--env-steps", 800, "--horizon", 5, "--algo.window", 10, "--batches", 2),
    "dqn": ("dqn", "--game", "asterix", "--env-steps", 800, "--repeat-action-probability", 0.25, *Q),
    "concurrent": ("c51", "--game", "pong", "--env-steps", 800, "--schedule", "concurrent", "--horizon", 4, *Q),
}


def learner(folder: Path) -> dict:
    """The learner of the newest checkpoint, without its replay."""
    _, state = Checkpoints(folder / "checkpoints").load_latest()
    algo = {k: x for k, x in state["learner"]["algo"].items() if k != "replay"}
    return {**state["learner"], "algo": algo}


@pytest.mark.slow  # rollouts: tests/samplers/test_device_engine.py; runs: tests/gpu/test_device_engine.py
@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_that_of_worker_processes(tmp_path, name):
    for engine, settings in (("device", ()), ("workers", ("--randomness", "counter"))):
        done = run("train", *RUNS[name], *SMALL, "--engine", engine, *settings, "--run-dir", tmp_path / engine)
        assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "device") == rows(tmp_path / "workers")
    assert encode(learner(tmp_path / "device")) == encode(learner(tmp_path / "workers"))
    protocol = json.loads((tmp_path / "device" / "protocol.json").read_text())
    assert protocol["randomness"] == "counter" and protocol["reset"] == "immediate"
    assert protocol["reset_exact"] == (name != "ppo")  # a reset of seaquest keeps something, ours does not


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), [("device", "workers"), ("workers", "device")])
def test_a_run_continues_on_another_engine(tmp_path, one, other):
    short = (*RUNS["a2c"], *SMALL, "--randomness", "counter", "--checkpoint.keep", 9, "--checkpoint.interval", 200)
    done = run("train", *short, "--engine", one, "--run-dir", tmp_path / "whole")
    assert done.returncode == 0, done.stderr
    shutil.copytree(tmp_path / "whole", tmp_path / "run")
    checkpoint = Checkpoints(tmp_path / "run" / "checkpoints").path(400)
    done = run("resume", tmp_path / "run", "--checkpoint", checkpoint, "--engine", other)
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "whole") == rows(tmp_path / "run")
    assert encode(learner(tmp_path / "whole")) == encode(learner(tmp_path / "run"))
    assert json.loads((tmp_path / "run" / "config.json").read_text())["sampler"]["engine"] == other


def test_only_counter_randomness_changes_to_a_device(tmp_path):
    done = run("train", *RUNS["a2c"], *SMALL, "--env-steps", 80, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    done = run("resume", tmp_path / "run", "--env-steps", 160, "--engine", "device")
    assert done.returncode == 2 and "needs counter" in done.stderr and len(done.stderr.splitlines()) == 1
