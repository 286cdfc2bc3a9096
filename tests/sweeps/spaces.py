"""Spaces for the tests of searches: runs of a second or two."""

from dataclasses import replace
from typing import Any

from accel_rl.settings.train import TrainConfig
from tests.sweeps import grids


def cartpole(trial: Any) -> TrainConfig:
    return grids.cartpole(learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True))


def long(trial: Any) -> TrainConfig:
    return replace(cartpole(trial), env_steps=2_400)


def sometimes_impossible(trial: Any) -> TrainConfig:
    """Four environments in the first trial; then numbers that its two groups do not divide."""
    trial.suggest_float("learning_rate", 1e-4, 1e-2)
    return grids.cartpole(envs=4 if trial.number == 0 else 5, groups=2)


def impossible(trial: Any) -> TrainConfig:
    return grids.cartpole(envs=5, groups=2)


def nothing(trial: Any) -> None:
    return None


def mistaken(trial: Any) -> TrainConfig:
    return grids.cartpole(learning_rate=trial.suggest_float("learning_rate", 1.0, 0.1))
