"""When the target network is copied, and what a row of metrics says of it."""

import pytest
import torch
from torch import nn

import accel_rl
from accel_rl.algos.replay_algorithm import TargetNetwork


def copies(interval, before, now, due):
    """The numbers of updates of the cycle after which the network is copied."""
    online = nn.Linear(1, 1)
    target, made = TargetNetwork(online, interval), []
    target.update = lambda: made.append(done)  # type: ignore[method-assign]
    done = 0
    target.after_env_steps(before, now)
    for done, _ in enumerate(target.between_updates(due), 1):  # noqa: B007  read by `update`
        pass
    return made


@pytest.mark.parametrize(
    ("interval", "before", "now", "due", "expected"),
    [
        (512, 0, 511, 4, []),
        (512, 0, 512, 4, [0]),  # As with each interval of a cycle or more: before the cycle's updates
        (100, 0, 512, 10, [0, 2, 4, 6, 8]),
        (100, 512, 1_024, 10, [0, 2, 4, 6, 8]),
        (256, 0, 512, 3, [0, 2]),
        (100, 0, 400, 0, [0, 0, 0, 0]),
        (100, 0, 400, 2, [0, 1, 1, 2]),
    ],
)
def test_intervals_shorter_than_a_cycle_end_between_its_updates(interval, before, now, due, expected):
    assert copies(interval, before, now, due) == expected


def test_the_target_follows_the_network_within_a_cycle():
    online = nn.Linear(1, 1, bias=False)
    target, seen = TargetNetwork(online, 10), []
    target.after_env_steps(0, 40)
    for i, _ in enumerate(target.between_updates(8)):
        seen.append(float(target.model.weight))
        with torch.no_grad():
            online.weight.fill_(i + 1)
    assert seen[2:] == [2.0, 2.0, 4.0, 4.0, 6.0, 6.0] and target.copies == 4


@pytest.mark.parametrize(("interval", "expected"), [(100, 40), (1_000, 4), (512, 8)])
def test_rows_count_the_copies_and_have_epsilon_and_beta(tmp_path, interval, expected):
    """With 512 env steps a cycle, intervals of 100 env steps were 8 copies in 4,096 env steps."""
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
    begun = (steps - 512) / 4_096  # A cycle's progress is that of its beginning.
    assert rows["beta"].tolist() == pytest.approx((c.replay.beta + (1 - c.replay.beta) * begun).tolist())
    assert set(rows["acting_age"]) == {0}


def test_the_acting_network_of_a_concurrent_run_is_a_period_old(tmp_path):
    values = {"env": "CartPole-v1", "envs": 8, "horizon": 4, "groups": 1, "engine": "in-process", "intensity": 2.0}
    values |= {"replay__size": 2_000, "replay__start": 160, "evaluation__interval": 0, "log__interval": 160}
    values |= {"target_interval": 160, "schedule": "concurrent", "decorrelation_steps": 0, "batch_size": 32}
    run = accel_rl.train("dqn", **values, env_steps=640, run_dir=tmp_path / "run")
    assert run.metrics["acting_age"].tolist() == [0, 10, 10, 10]  # 160 env steps x 2 / 32
