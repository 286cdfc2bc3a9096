"""Statistics of a recommendation, and settings of a measured run."""

from dataclasses import replace

import pytest

from accel_rl.config.resolved import resolve
from accel_rl.config.train import default_config
from accel_rl.tuning.tuner import Outcome, is_faster, measurable, proposals


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([1.1] * 5, True),
        ([1.1] * 4, False),  # Chance gives four faster turns of four in 1 of 16 cases.
        ([1.1] * 7 + [0.9], True),
        ([1.1] * 4 + [0.9], False),
        ([1.01] * 15, False),  # A tie keeps the defaults.
        ([0.9] * 10, False),
        ([], False),
    ],
)
def test_a_gain_is_recommended_only_if_chance_does_not_explain_it(ratios, expected):
    assert is_faster(ratios) is expected
    assert Outcome(changes={"torch_threads": 1}, ratios=ratios).is_faster is expected
    assert not Outcome(changes={}, ratios=ratios).is_faster


def pong(algorithm):
    config = default_config(algorithm)
    return replace(config, env=replace(config.env, game="pong"))


def test_a_measured_run_is_short_and_has_the_same_minibatches():
    ppo = measurable(pong("ppo"))
    assert (ppo.T, ppo.sampler.envs, ppo.algo) == (32, 16, pong("ppo").algo)
    assert measurable(pong("a2c")).T == 5
    dqn = measurable(pong("dqn"))
    assert (dqn.algo.replay.start, dqn.algo.replay.size) == (1_000, 50_000)
    assert dqn.T == pong("dqn").T
    for config in (ppo, dqn):
        resolve(config)


def test_a_measured_run_has_no_callbacks_and_evaluations():
    config = replace(pong("ppo"), callback=("SaveBest",), wandb="offline", init="suite/x", run_dir="here")
    found = measurable(config)
    assert (found.callback, found.wandb, found.init, found.run_dir) == ((), "disabled", "", "")
    assert found.evaluation.interval == 0


def test_proposals_keep_t_times_b_if_the_horizon_can_be_halved():
    config = measurable(pong("ppo"))
    (text, found), *_ = proposals(config, 128, on_gpu=False)[-1:]
    assert text == "--envs 32 --horizon 64" and found.T * found.sampler.envs == config.T * config.sampler.envs
    (text, found), *_ = proposals(measurable(pong("a2c")), 5, on_gpu=False)[-1:]
    assert text == "--envs 32" and found.T == 5
    assert proposals(config, 128, on_gpu=True)[0][0] == "--precision bfloat16"
