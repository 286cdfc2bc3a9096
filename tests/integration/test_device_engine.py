"""Training on environments of the learner's device equals training with worker processes, to the last number."""

import json

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
    "impala": ("impala", "--game", "pong", "--env-steps", 800, "--horizon", 5, "--window", 10, "--batches", 2),
    "dqn": ("dqn", "--game", "asterix", "--env-steps", 800, "--repeat-action-probability", 0.25, *Q),
    "concurrent": ("c51", "--game", "pong", "--env-steps", 800, "--schedule", "concurrent", "--horizon", 4, *Q),
}


@pytest.mark.parametrize("name", [n if n == "a2c" else pytest.param(n, marks=pytest.mark.slow) for n in RUNS])
def test_a_run_is_that_of_worker_processes(tmp_path, name):
    for engine, settings in (("device", ()), ("workers", ("--randomness", "counter"))):
        done = run("train", *RUNS[name], *SMALL, "--engine", engine, *settings, "--run-dir", tmp_path / engine)
        assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "device") == rows(tmp_path / "workers")
    states = [Checkpoints(tmp_path / engine / "checkpoints").load_latest()[1] for engine in ("device", "workers")]
    assert encode({"learner": states[0]["learner"]}) == encode({"learner": states[1]["learner"]})
    protocol = json.loads((tmp_path / "device" / "protocol.json").read_text())
    assert protocol["randomness"] == "counter" and protocol["reset"] == "immediate"
    assert protocol["reset_exact"] == (name != "ppo")  # a reset of seaquest keeps something, ours does not
