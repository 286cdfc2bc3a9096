"""Search spaces for the tests of hyperparameter searches, with runs of one or two seconds."""

from dataclasses import replace
from typing import Any

from accel_rl.settings.train import TrainConfig
from tests.sweeps import grids


def cartpole(trial: Any) -> TrainConfig:
    return grids.cartpole(learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True))


def sometimes_impossible(trial: Any) -> TrainConfig:
    """Trials of which the second has impossible settings: five environments cannot be divided into two groups."""
    learning_rate = trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)
    config = grids.cartpole(envs=5 if trial.number == 1 else 4, learning_rate=learning_rate, groups=2)
    return replace(config, env_steps=2_400)


def impossible(trial: Any) -> TrainConfig:
    return grids.cartpole(envs=5, groups=2)


def nothing(trial: Any) -> None:
    return None


def mistaken(trial: Any) -> TrainConfig:
    return grids.cartpole(learning_rate=trial.suggest_float("learning_rate", 1.0, 0.1))
