"""Default settings of --cluster gorila."""

from dataclasses import replace
from typing import Any

import pytest

from accel_rl.algos.c51 import C51
from accel_rl.algos.dqn import DQN
from accel_rl.api.keywords import settings
from accel_rl.cli.train_command import parse_train
from accel_rl.config.on_gorila import on_gorila
from accel_rl.config.resolved import resolve
from accel_rl.config.train import default_config
from accel_rl.system.errors import ConfigError
from tests.algos.streams import SPEC


@pytest.mark.parametrize("name", ["dqn", "c51", "rainbow"])
def test_the_guard_is_for_q_learning(name):
    """Nair et al. 2015, section 4.2: by the absolute DQN loss."""
    assert on_gorila(default_config(name)).gorila.outlier_deviations == 5.0


def test_the_guard_is_for_clipped_rewards():
    """A Gymnasium environment's rewards are not clipped by default, and such a run can begin."""
    config = on_gorila(default_config("dqn"), is_atari=False)
    assert config.gorila.outlier_deviations == 0.0
    resolve(replace(config, env=replace(config.env, id="CartPole-v1")))
    words = ["dqn", "--env", "CartPole-v1", "--cluster", "gorila"]
    assert parse_train(words, "accel-rl train", "").gorila.outlier_deviations == 0.0
    assert settings("dqn", "CartPole-v1", {"cluster": "gorila"}).gorila.outlier_deviations == 0.0


@pytest.mark.parametrize("name", ["a2c", "ppo", "impala"])
def test_policy_gradients_have_no_guard(name):
    assert on_gorila(default_config(name)).gorila.outlier_deviations == 0.0


def test_the_optimizer_is_one_whose_rate_was_tried():
    algo: Any = on_gorila(default_config("dqn")).algo
    assert (algo.optimizer, algo.learning_rate, algo.network) == ("rmsprop", 2.5e-4, "nature")


def test_an_experiment_keeps_its_guard():
    config = default_config("dqn")
    config = replace(config, gorila=replace(config.gorila, outlier_deviations=3.0))
    assert on_gorila(config).gorila.outlier_deviations == 3.0


def test_without_reward_clipping_the_guard_is_refused():
    config = on_gorila(default_config("dqn"))
    config = replace(config, env=replace(config.env, game="pong"), algo=replace(config.algo, reward_clip=0.0))
    with pytest.raises(ConfigError, match=r"--gorila\.outlier-deviations 5: must be 0 with --algo\.reward-clip 0"):
        resolve(config)


def test_what_a_reward_adds_to_a_loss():
    """An error of 2 by Huber's loss, in a batch of 8."""
    made = DQN(DQN.Config(batch_size=8, reward_clip=1.0), SPEC, T=2, B=2)
    assert made.config.usual_loss() == pytest.approx(1.5 / 8)
    squared = DQN(DQN.Config(batch_size=8, huber=0.0, reward_clip=0.5), SPEC, T=2, B=2)
    assert squared.config.usual_loss() == pytest.approx(0.5 / 8)
    distribution = C51(C51.Config(batch_size=8, reward_clip=1.0), SPEC, T=2, B=2)
    assert distribution.config.usual_loss() == pytest.approx(13.8155 / 8)
