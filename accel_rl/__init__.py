"""accel_rl trains deep reinforcement learning agents on Atari at the speed of the hardware.

    import accel_rl

    run = accel_rl.train("ppo", game="pong", env_steps=1e6)
    run.evaluate(episodes=30).mean

Worker processes import this module and must start in a fraction of a second, so this module imports nothing large.
Names of the Python interface, such as accel_rl.train, are imported at their first use. The first use of accel_rl.gym
registers Gymnasium's ids.
"""

import importlib
from typing import TYPE_CHECKING, Any

from accel_rl.processes.process import before_torch
from accel_rl.version import __version__

if TYPE_CHECKING:
    from accel_rl import gym
    from accel_rl.algos.a2c import A2C
    from accel_rl.algos.btr import BTR
    from accel_rl.algos.c51 import C51
    from accel_rl.algos.dqn import DQN
    from accel_rl.algos.impala import IMPALA
    from accel_rl.algos.iqn import IQN
    from accel_rl.algos.ppo import PPO
    from accel_rl.algos.pqn import PQN
    from accel_rl.algos.qrdqn import QRDQN
    from accel_rl.algos.r2d2 import R2D2
    from accel_rl.algos.rainbow import Rainbow
    from accel_rl.api.callbacks import SaveBest, StopAtScore, VideoEvery, WandbArtifacts
    from accel_rl.api.rollout_source import make_sampler
    from accel_rl.api.run import Run, train
    from accel_rl.emulator.vector_env import VectorEnv
    from accel_rl.metrics.sinks import Sink
    from accel_rl.replays.buffer import ReplayBuffer
    from accel_rl.settings.train import TrainConfig
    from accel_rl.text.errors import ConfigError, RunError
    from accel_rl.training.callback import Callback, Training

__all__ = [
    "A2C",
    "BTR",
    "C51",
    "DQN",
    "IMPALA",
    "IQN",
    "PPO",
    "PQN",
    "QRDQN",
    "R2D2",
    "Callback",
    "ConfigError",
    "Rainbow",
    "ReplayBuffer",
    "Run",
    "RunError",
    "SaveBest",
    "Sink",
    "StopAtScore",
    "TrainConfig",
    "Training",
    "VectorEnv",
    "VideoEvery",
    "WandbArtifacts",
    "__version__",
    "gym",
    "make_sampler",
    "train",
]

_MODULES = {
    "A2C": "algos.a2c",
    "BTR": "algos.btr",
    "C51": "algos.c51",
    "DQN": "algos.dqn",
    "IMPALA": "algos.impala",
    "IQN": "algos.iqn",
    "PPO": "algos.ppo",
    "PQN": "algos.pqn",
    "QRDQN": "algos.qrdqn",
    "R2D2": "algos.r2d2",
    "Rainbow": "algos.rainbow",
    "Run": "api.run",
    "train": "api.run",
    "make_sampler": "api.rollout_source",
    "Callback": "training.callback",
    "Training": "training.callback",
    "Sink": "metrics.sinks",
    "ReplayBuffer": "replays.buffer",
    "SaveBest": "api.callbacks",
    "StopAtScore": "api.callbacks",
    "VideoEvery": "api.callbacks",
    "WandbArtifacts": "api.callbacks",
    "TrainConfig": "settings.train",
    "VectorEnv": "emulator.vector_env",
    "ConfigError": "text.errors",
    "RunError": "text.errors",
}


def __getattr__(name: str) -> Any:
    if name == "gym":
        return importlib.import_module("accel_rl.gym")
    if name not in _MODULES:
        raise AttributeError(f"module 'accel_rl' has no attribute {name!r}")
    before_torch()
    value = getattr(importlib.import_module(f"accel_rl.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *globals()]
