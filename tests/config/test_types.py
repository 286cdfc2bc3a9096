"""Values from Python and from files have the types that the command line would give them."""

from dataclasses import replace
from typing import Any

import gymnasium
import pytest

import accel_rl
from accel_rl.algos.ppo import PPO
from accel_rl.config.train import TrainConfig, default_config
from accel_rl.config.types import check_types
from accel_rl.system.errors import ConfigError


def test_defaults_fit() -> None:
    for name in ("a2c", "ppo", "impala", "dqn", "c51", "rainbow"):
        check_types(default_config(name))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"algo": PPO.Config(epochs=2.5)}, "--algo.epochs 2.5: must be a whole number"),
        ({"seed": True}, "--seed True: must be a whole number"),
        ({"precision": "float16"}, "--precision 'float16': must be one of float32, tfloat32, bfloat16"),
        ({"torch_threads": "2"}, "--torch-threads '2': must be a whole number or None"),
        ({"algo": PPO.Config(learning_rate="fast")}, "--algo.learning-rate 'fast': must be a number"),
    ],
)
def test_a_wrong_type_is_named(changed: dict[str, Any], message: str) -> None:
    config = replace(default_config("ppo"), **changed)
    with pytest.raises(ConfigError) as e:
        config.check()
    assert str(e.value) == message


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
