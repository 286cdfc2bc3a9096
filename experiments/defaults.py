"""Candidates for default settings are compared over eight games: settings that are best on one game may fail on others.

    accel-rl sweep experiments.defaults:ppo               # 10 M env steps
    accel-rl sweep experiments.defaults:ppo --scale 0.1   # 1 M env steps
    accel-rl report runs/defaults-ppo-TIME

A candidate replaces the current default if the report's table of differences has an interval above 0 for the candidate
minus the default at one of the two lengths, and no interval below 0 at the other length.
"""

from collections.abc import Mapping
from dataclasses import replace

from accel_rl.envs.atari_games import ATARI_5
from accel_rl.settings.presets import with_preset
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Grid, GridMember

GAMES = (*ATARI_5, "breakout", "space_invaders", "seaquest")
LENGTH = 10_000_000


def ppo(seeds: tuple[int, ...] = (1,)) -> Grid:
    """The defaults, CleanRL's settings, and the defaults with a learning rate that follows the KL divergence."""
    default = default_config("ppo")
    kl = replace(default, algo=replace(default.algo, learning_rate=2.5e-4, learning_rate_schedule="kl"))
    return _grid({"default": default, "cleanrl": with_preset(default, "cleanrl"), "kl": kl}, seeds)


def dqn(seeds: tuple[int, ...] = (1,)) -> Grid:
    """The defaults, and Adam with the squared error, with which Dopamine's DQN has higher scores."""
    default = default_config("dqn")
    adam = replace(default.algo, optimizer="adam", optimizer_eps=1.5e-4, learning_rate=6.25e-5, huber=0.0)
    return _grid({"default": default, "adam": replace(default, algo=adam)}, seeds)


def _grid(candidates: Mapping[str, TrainConfig], seeds: tuple[int, ...]) -> Grid:
    members = []
    for seed in seeds:
        for game in GAMES:
            for name, config in candidates.items():
                env = replace(config.env, game=game, protocol="cleanrl2022")
                evaluation = replace(config.evaluation, interval=LENGTH // 10, episodes=30)
                config = replace(config, env=env, env_steps=LENGTH, seed=seed, evaluation=evaluation)
                members.append(GridMember(config, {"candidate": name, "game": game, "seed": str(seed)}))
    return Grid(tuple(members))
