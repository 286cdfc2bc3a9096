"""Runs whose environments are on a simulated GPU equal runs on the CPU. The host waits for the GPU once per rollout."""

import json
from collections import Counter
from dataclasses import replace

import pytest
import torch

from accel_rl.envs.make import EnvConfig
from accel_rl.settings.train import default_config
from tests.golden.runs import SEQUENCES, config
from tests.gpu.runs import GPU, on_device, play, q

CYCLES = 10
# The host waits in the file WAITED until the GPU has sent the ends of episodes.
WAITED = "accel_rl/samplers/inference/resident.py"
PONG = "pong"
RETURNS = {"v_min": -5.0, "v_max": 5.0}
RUNS = {
    "a2c": config("a2c"),
    "ppo": config("ppo", horizon=8, minibatch=32, epochs=2),
    "dqn": q("dqn", PONG),
    "a2c, LSTM": config("a2c", lstm=8, network="a3c"),
    "impala": config("impala", window=10, batches=2, horizon=5),
    "rainbow, noisy": q("rainbow", PONG, noisy=True, **RETURNS),
    "c51, replay on the host": q("c51", PONG, replay_device="cpu", **RETURNS),
    "dqn, concurrent": q("dqn", PONG, schedule="concurrent"),
    "r2d2": q("r2d2", PONG, **SEQUENCES),
}
QUICK = ("dqn",)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in RUNS])
def test_a_run_equals_that_on_the_cpu_and_waits_once_a_rollout(simulated_gpu, tmp_path, name):
    run = on_device(RUNS[name])
    expected, found = play(run, "cpu", tmp_path / "cpu", CYCLES), play(run, GPU, tmp_path / "gpu", CYCLES)
    for a, b in zip(expected.parameters, found.parameters, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)
    assert "rollouts are not captured" not in found.events and "inference is not captured" not in found.events
    waits = sum(found.waits[-3:], Counter())
    rollouts = 3 * (run.period // (run.T * run.sampler.envs) if run.schedule == "concurrent" else 1)
    assert sum(n for place, n in waits.items() if place.startswith(WAITED)) == rollouts, waits


@pytest.mark.slow
def test_captured_rollouts_equal_those_from_python_bit_for_bit(simulated_gpu, tmp_path):
    captured = play(on_device(RUNS["a2c"]), GPU, tmp_path / "captured", CYCLES)
    eager = play(on_device(RUNS["a2c"], capture=False), GPU, tmp_path / "eager", CYCLES)
    assert all(torch.equal(a, b) for a, b in zip(captured.parameters, eager.parameters, strict=True))
    assert "--sampler.no-capture" in eager.events


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_vector_environment_of_tensors_equals_that_on_the_cpu_and_waits_once_a_rollout(simulated_gpu, tmp_path, mode):
    env = EnvConfig(id="tests.tensor_environments:make", kwargs=json.dumps({"mode": mode}))
    run = on_device(replace(RUNS["a2c"], env=env, algo=default_config("a2c").algo))
    expected, found = play(run, "cpu", tmp_path / "cpu", CYCLES), play(run, GPU, tmp_path / "gpu", CYCLES)
    for a, b in zip(expected.parameters, found.parameters, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)
    waits = sum(found.waits[-3:], Counter())
    assert sum(n for place, n in waits.items() if place.startswith(WAITED)) == 3, waits
