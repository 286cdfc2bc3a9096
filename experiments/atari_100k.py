"""Atari-100k compares algorithms after 100,000 env steps, about two hours of play, in 26 games (Kaiser et al. 2020,
arXiv:1903.00374).

    accel-rl sweep experiments.atari_100k:rainbow
    accel-rl report runs/atari_100k-rainbow-TIME
"""

from dataclasses import replace

from accel_rl.envs.atari_games import ATARI_26
from accel_rl.settings.presets import with_preset
from accel_rl.settings.train import default_config
from accel_rl.sweeps.grid import Grid, GridMember

EPISODES = 100
"""Number of episodes of the evaluation at the end of each run (Agarwal et al. 2021, arXiv:2108.13264)."""


def rainbow(seeds: tuple[int, ...] = (1,)) -> Grid:
    """Data-efficient Rainbow (van Hasselt et al. 2019, arXiv:1906.05243) in all 26 games."""
    config = with_preset(default_config("rainbow"), "vanhasselt2019")
    evaluation = replace(config.evaluation, interval=config.env_steps, episodes=EPISODES)
    return Grid(
        tuple(
            GridMember(
                replace(config, env=replace(config.env, game=game), seed=seed, evaluation=evaluation),
                {"game": game, "seed": str(seed)},
            )
            for seed in seeds
            for game in ATARI_26
        )
    )
