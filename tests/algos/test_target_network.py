"""The columns of metrics.csv about the target network. test_options.py tests when the network is copied."""

import pytest

import accel_rl
from tests.marks import slow


@pytest.mark.parametrize(("interval", "expected"), [(100, 40), slow(1_000, 4), slow(512, 8)])
def test_rows_count_the_copies_and_have_epsilon_and_beta(tmp_path, interval, expected):
    """A run of 4,096 env steps that copies the network every 100 env steps makes 40 copies, although a training cycle
    has 512 env steps."""
    values = {"env": "CartPole-v1", "envs": 64, "horizon": 8, "engine": "in-process", "decorrelation_steps": 0}
    values |= {"replay__size": 8_000, "replay__start": 1_024, "replay__prioritized": True, "epsilon_steps": 2_048}
    values |= {"evaluation__interval": 0, "log__interval": 512, "intensity": 1.0, "epsilon_final": 0.1}
    run = accel_rl.train("dqn", **values, target_interval=interval, env_steps=4_096, run_dir=tmp_path / "run")
    rows = run.metrics
    assert rows["target_copies"][-1] == expected
    steps, c = rows["env_steps"], run.config.algo
    shares = ((steps - 1_024) / 2_048).clip(0, 1)
    epsilon = [1.0 if n < 1_024 else c.epsilon + (0.1 - c.epsilon) * x for n, x in zip(steps, shares, strict=True)]
    assert rows["epsilon"].tolist() == pytest.approx(epsilon)
    begun = (steps - 512) / 4_096  # beta changes at the beginning of each training cycle of 512 env steps
    assert rows["beta"].tolist() == pytest.approx((c.replay.beta + (1 - c.replay.beta) * begun).tolist())
    assert set(rows["acting_age"]) == {0}


def test_the_acting_network_of_a_concurrent_run_is_a_period_old(tmp_path):
    values = {"env": "CartPole-v1", "envs": 8, "horizon": 4, "groups": 1, "engine": "in-process", "intensity": 2.0}
    values |= {"replay__size": 2_000, "replay__start": 160, "evaluation__interval": 0, "log__interval": 160}
    values |= {"target_interval": 160, "schedule": "concurrent", "decorrelation_steps": 0, "batch_size": 32}
    run = accel_rl.train("dqn", **values, env_steps=640, run_dir=tmp_path / "run")
    # 10 updates per 160 env steps: 160 x intensity 2 / batch size 32
    assert run.metrics["acting_age"].tolist() == [0, 10, 10, 10]
