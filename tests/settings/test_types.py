"""Settings from Python and from files are converted to the types that settings from the command line have."""

import json
import math
from dataclasses import replace
from enum import StrEnum
from typing import Any

import gymnasium
import numpy as np
import pytest

import accel_rl
from accel_rl.algos.ppo import PPO
from accel_rl.api.keywords import settings
from accel_rl.settings.flags import with_setting
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.settings.types import check_types
from accel_rl.text.errors import ConfigError


def test_defaults_fit() -> None:
    for name in ("a2c", "ppo", "impala", "dqn", "c51", "rainbow"):
        check_types(default_config(name))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"algo": PPO.Config(epochs=2.5)}, "--algo.epochs 2.5: must be a whole number"),
        ({"seed": True}, "--seed True: must be a whole number"),
        ({"algo": PPO.Config}, f"--algo {PPO.Config!r}: must be AlgorithmConfig"),
        ({"wandb": "on"}, "--wandb 'on': must be one of disabled, offline, online; nearest: online"),
        ({"torch_threads": "2"}, "--torch-threads '2': must be a whole number or None"),
        ({"algo": PPO.Config(learning_rate="fast")}, "--algo.learning-rate 'fast': must be a number"),
        ({"seed": 2**63}, "--seed 9223372036854775808: must be a number of at most 9223372036854775807"),
        ({"env_steps": 10**18}, "--env-steps 1e+18: must be a number of at most 1e+15"),
        ({"env_steps": 10**400}, f"--env-steps {10**400}: must be a number of at most 1e+15"),
    ],
)
def test_a_wrong_type_or_size_is_named(changed: dict[str, Any], message: str) -> None:
    config = replace(default_config("ppo"), **changed)
    with pytest.raises(ConfigError) as e:
        config.check()
    assert str(e.value) == message


@pytest.mark.parametrize(
    ("algorithm", "name", "outside", "allowed"),
    [
        ("a2c", "algo.learning_rate", (-1e-3, 0.0, math.nan, 1e300), "above 0"),
        ("a2c", "algo.gamma", (-0.1, 1.5), "between 0 and 1"),
        ("a2c", "algo.rmsprop_alpha", (-0.1, 1.0), "at least 0 and below 1"),
        ("a2c", "algo.reward_clip", (-1.0,), "0 or more"),
        ("ppo", "algo.clip", (0.0,), "above 0"),
        ("ppo", "algo.minibatch", (0,), "at least 1"),
        ("c51", "algo.atoms", (1,), "at least 2"),
        ("dqn", "algo.replay.alpha", (-0.5, 1.5), "between 0 and 1"),
        ("dqn", "algo.epsilon_steps", (-1,), "0 or more"),
        ("pqn", "sampler.workers", (0, -3), "at least 1"),
        ("pqn", "gorila.max_delay", (-1,), "0 or more"),
        ("pqn", "evaluation.episodes", (-1,), "0 or more"),
        ("pqn", "env_steps", (0,), "at least 1"),
    ],
)
def test_a_number_out_of_bounds_is_named(algorithm: str, name: str, outside: tuple[Any, ...], allowed: str) -> None:
    for value in outside:
        with pytest.raises(ConfigError) as e:
            check_types(with_setting(default_config(algorithm), name, value))
        allowed_words = "a number of at most 1e+15" if not abs(value) <= 1e15 else allowed
        assert str(e.value) == f"--{name.replace('_', '-')} {value}: must be {allowed_words}"


def test_the_ends_of_bounds_are_inside() -> None:
    for name, value in (
        ("algo.gamma", 0),
        ("algo.gamma", 1.0),
        ("algo.rmsprop_alpha", 0.0),
        ("algo.reward_clip", None),
    ):
        check_types(with_setting(default_config("a2c"), name, value))


def test_a_file_is_checked_when_it_is_read() -> None:
    values = default_config("ppo").to_dict()
    values["evaluation"]["episodes"] = 1.5
    with pytest.raises(ConfigError, match=r"--evaluation.episodes 1.5: must be a whole number"):
        TrainConfig.from_dict(values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learning_rat": 1e-3}, "unknown setting learning_rat; nearest: learning_rate"),
        ({"lr": 1e-3}, "unknown setting lr: use learning_rate"),
        ({"wandb": True}, "wandb=True: must be one of disabled, offline, online"),
    ],
)
def test_messages_name_settings_as_python_does(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        accel_rl.train("ppo", game="pong", **arguments)


def test_an_environment_object_is_refused() -> None:
    with pytest.raises(ConfigError, match="give its id, env='CartPole-v1', or a function that makes one"):
        accel_rl.train("ppo", env=gymnasium.make("CartPole-v1"))  # type: ignore[arg-type]


class Reset(StrEnum):
    WAIT = "wait"


SCALARS: list[dict[str, Any]] = [
    {"env_steps": np.int64(3200)}, {"env_steps": np.float64(3200)}, {"seed": np.uint8(3)}, {"strict": np.bool_(True)},
    {"learning_rate": np.float32(0.5)}, {"learning_rate": np.array(0.5)}, {"cores": np.array([0, 1])},
    {"cores": range(2)}, {"cores": [np.int64(0)]}, {"reset": Reset.WAIT},
]  # fmt: skip


@pytest.mark.parametrize("values", SCALARS, ids=str)
def test_values_of_numpy_and_enumerations_are_plain_values(values: dict[str, Any]) -> None:
    config = settings("ppo", "CartPole-v1", values)
    check_types(config)
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_settings_of_a_class_with_values_of_numpy() -> None:
    config = settings(PPO.Config(learning_rate=np.float32(0.5), epochs=np.int64(2)), "CartPole-v1", {})  # type: ignore[arg-type]
    assert type(config.algo.learning_rate) is float and type(config.algo.epochs) is int  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "config",
    [TrainConfig(), replace(default_config("a2c"), algorithm="dqn"), replace(TrainConfig(), algo=PPO.Config())],
)
def test_settings_of_another_algorithm_are_refused(config: TrainConfig) -> None:
    with pytest.raises(ConfigError, match=r"^algo is of \w+Config, the settings of \w+ are \w+Config: begin from"):
        accel_rl.train(config, env="CartPole-v1")


def test_the_nearest_name_in_any_case() -> None:
    with pytest.raises(ConfigError, match=r"unknown algorithm 'PPO'.*nearest: ppo"):
        accel_rl.train("PPO", env="CartPole-v1")
