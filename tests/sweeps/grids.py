"""Grids for the tests of sweeps. Most runs of the grids take one or two seconds."""

from collections.abc import Sequence
from dataclasses import replace

from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Grid, Level, grid, levels


def cartpole(envs: int = 4, learning_rate: float = 7e-4, seed: int = 0, groups: int | None = None) -> TrainConfig:
    base = default_config("a2c")
    return replace(
        base,
        env=replace(base.env, id="CartPole-v1"),
        algo=replace(base.algo, learning_rate=learning_rate),
        sampler=replace(base.sampler, engine="in-process", envs=envs, groups=groups, decorrelation_steps=5),
        evaluation=replace(base.evaluation, interval=0),
        checkpoint=replace(base.checkpoint, interval=400),
        log=replace(base.log, interval=200),
        torch_threads=1,
        env_steps=1_200,
        seed=seed,
    )


@levels({"envs": (4, 8)}, seeds=(0, 1))
def swept(envs: int = 4, seed: int = 0) -> TrainConfig:
    return cartpole(envs, seed=seed)


def small() -> Grid:
    return grid(cartpole(), {"envs": (4, 8)}, seeds=(0, 1))


def seeded(seeds: Sequence[int] = (0, 1)) -> Grid:
    return grid(cartpole(), seeds=seeds)


def machines() -> Grid:
    """Three runs, which ask for one, three and eight GPUs."""
    return grid(cartpole(), Level({"envs": (4, 48, 64)}, gpus=(1, 3, 8)))


def mixed() -> Grid:
    """Two runs that ask for one core, and one run that asks for two cores."""
    base = replace(cartpole(), env_steps=2_400)
    return grid(base, Level({"envs": (4, 8)}, cores=(1, 2)), {"seed": (0,)}) + grid(base, {"envs": (4,)}, seeds=(1,))


def long() -> Grid:
    """Three runs, which take long enough for a test to interrupt them."""
    base = replace(cartpole(), env_steps=2_400)
    return grid(base, {"envs": (4,)}, seeds=(0, 1)) + grid(base, {"envs": (8,)}, seeds=(0,))


def failing() -> Grid:
    """A correct run, and a run that fails because rewards are NaN."""
    base = replace(cartpole(), max_skipped_updates=2, env_steps=800)
    return grid(base, {"env.id": ("CartPole-v1", "tests.environments:without_a_reward")})


def empty() -> Grid:
    return grid(cartpole(), {"envs": ()})


def twice() -> Grid:
    return grid(cartpole(), {"envs": (4, 4)})


def unknown() -> Grid:
    return grid(cartpole(), {"learning_rte": (1e-3,)})


def impossible() -> Grid:
    return grid(cartpole(groups=2), {"envs": (4, 5)})


def no_grid() -> int:
    return 3


def pair() -> Grid:
    """Two runs, which take long enough for a test to interrupt them."""
    return grid(replace(cartpole(), env_steps=2_400), seeds=(0, 1))


def uneven() -> Grid:
    """Two runs that would take hours and differ only in the seed, and a short run."""
    endless = grid(replace(cartpole(), env_steps=10_000_000), {"envs": (4,)}, seeds=(0, 1))
    return endless + grid(replace(cartpole(), env_steps=1_200), {"envs": (8,)}, seeds=(0,))
