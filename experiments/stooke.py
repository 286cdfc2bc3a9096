"""Stooke & Abbeel 2018 (arXiv:1803.02811), section 5.3 and Figure 3: policy gradients at any number of simulators.

`accel-rl train experiments.stooke:a2c_scaling --game pong --envs 64`
"""

from dataclasses import replace

from accel_rl.config import TrainConfig, default_config

STEPS = 50_000_000
"""Env steps of a learning curve (section 5.3: 200 M frames)."""


def a2c_scaling(game: str = "pong", envs: int = 16, seed: int = 0) -> TrainConfig:
    """Figure 3, top: 16 ... 512 environments, horizon 5, step size with the root of the batch."""
    return _curve("a2c", game, envs, 5, seed)


def ppo_scaling(game: str = "pong", envs: int = 8, seed: int = 0) -> TrainConfig:
    """Figure 3, third row: 8 ... 512 environments with horizons of 256 ... 4, so that a batch stays 2,048."""
    if envs < 1 or 2_048 % envs:
        raise ValueError(f"envs={envs} must divide the batch of 2,048")
    return _curve("ppo", game, envs, 2_048 // envs, seed)


def _curve(algorithm: str, game: str, envs: int, horizon: int, seed: int) -> TrainConfig:
    base = default_config(algorithm)
    return replace(
        base,
        env=replace(base.env, game=game),
        sampler=replace(base.sampler, envs=envs, horizon=horizon),
        env_steps=STEPS,
        seed=seed,
    )
