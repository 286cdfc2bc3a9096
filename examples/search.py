"""A search space for Optuna: settings of PPO and their ranges. `accel-rl search examples.search:space --trials 30 --out
runs/search` searches, and `accel-rl report runs/search --out report` reports the trials.
"""

import optuna

from accel_rl.api.keywords import settings
from accel_rl.settings.train import TrainConfig


def space(trial: optuna.Trial) -> TrainConfig:
    values = {
        "game": "pong",
        "env_steps": 500_000,
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-3, log=True),
        "epochs": trial.suggest_int("epochs", 2, 6),
        "envs": trial.suggest_categorical("envs", (16, 64)),
    }
    return settings("ppo", None, values)
