"""Search spaces for `python -m launch.search` are functions of an `optuna.Trial` that return the settings of a run.

A name that is given to a `suggest_...` method is a column of the report. https://optuna.readthedocs.io lists these
methods.
"""

from typing import Any

from accel_rl.api.keywords import settings
from accel_rl.settings.train import TrainConfig
from experiments import cpu


def cartpole_dqn(trial: Any) -> TrainConfig:
    """Five settings of DQN are searched, in runs of 30,000 env steps of CartPole."""
    values = {
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
        "batch_size": trial.suggest_categorical("batch_size", (32, 64, 128)),
        "intensity": trial.suggest_categorical("intensity", (4.0, 8.0, 16.0)),
        "n_step": trial.suggest_int("n_step", 1, 5),
        "target_interval": trial.suggest_int("target_interval", 100, 2_000, log=True),
    }
    return settings(cpu.cartpole_dqn(), None, {**values, "env_steps": 30_000})


def pong_ppo(trial: Any) -> TrainConfig:
    """Five settings of PPO are searched, in runs of 500,000 env steps of Pong."""
    values = {
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 2e-3, log=True),
        "epochs": trial.suggest_int("epochs", 1, 6),
        "clip": trial.suggest_float("clip", 0.05, 0.3),
        "gae_lambda": trial.suggest_float("gae_lambda", 0.8, 0.99),
        "entropy_coefficient": trial.suggest_float("entropy_coefficient", 1e-4, 0.03, log=True),
    }
    return settings(cpu.pong_ppo(), None, {**values, "env_steps": 500_000, "evaluation__interval": 250_000})
