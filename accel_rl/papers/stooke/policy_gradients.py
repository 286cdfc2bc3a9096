"""The experiments train A2C, A3C, PPO and APPO with many simulators and learners (sections 4.2, 4.3 and 5.3)."""

from dataclasses import replace
from typing import Any

from accel_rl.config.train import TrainConfig
from accel_rl.papers.stooke.stooke_settings import TEST_GAMES, policy_gradient, together
from accel_rl.sweeps.grid import Level, levels


@levels({"game": TEST_GAMES}, {"envs": (16, 32, 64, 128, 256, 512)})
def a2c_scaling(game: str = "pong", envs: int = 16, seed: int = 0) -> TrainConfig:
    """Figure 3, top, has A2C with 16 to 512 environments, horizon 5, and a learning rate scaled with the square root of
    the batch size."""
    return policy_gradient("a2c", game, envs, 5, seed)


@levels({"game": TEST_GAMES}, {"envs": (8, 16, 32, 64, 128, 256, 512)})
def ppo_scaling(game: str = "pong", envs: int = 8, seed: int = 0) -> TrainConfig:
    """Figure 3, third row, has PPO with 8 to 512 environments and horizons of 256 to 4, for a constant batch size of
    2,048."""
    if envs < 1 or 2_048 % envs:
        raise ValueError(f"envs={envs} must divide the batch of 2,048")
    return policy_gradient("ppo", game, envs, 2_048 // envs, seed)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8)})
def a2c_ranks(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Table 2 has synchronous A2C with 16 environments per GPU."""
    return together(a2c_scaling(game, 16 * ranks, seed), ranks)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8)})
def ppo_ranks(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Table 2 has synchronous PPO with 8 environments per GPU, and a total batch size of 2,048."""
    return together(ppo_scaling(game, 8 * ranks, seed), ranks)


@levels({"game": TEST_GAMES}, Level({"ranks": (1, 2, 4, 8, 16, 32)}, gpus=(1, 2, 4, 8, 8, 8)))
def a3c(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Figure 3, second row, and Table 2 have A3C with 1 to 32 learners of 16 environments and A2C's settings. With more
    than 8 learners, learners share the GPUs."""
    return together(a2c_scaling(game, 16, seed), ranks, update="async")


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8)}, {"local_updates": (1, 2, 3, 4)})
def appo(game: str = "pong", ranks: int = 8, local_updates: int = 1, seed: int = 0) -> TrainConfig:
    """Figure 3, bottom, and Table 2 have APPO with learners of 8 environments, and 1 to 4 updates between pushes.
    Unlike PPO, APPO clips the gradient norm, has a quarter of the learning rate, and has no schedules."""
    base = ppo_scaling(game, 8, seed)
    rate = base.algo.learning_rate / 4  # type: ignore[attr-defined]
    algo: Any = replace(
        base.algo, learning_rate=rate, learning_rate_schedule="constant", clip_schedule="constant", clip_grad_norm=0.5
    )  # type: ignore[call-arg]
    return together(replace(base, algo=algo), ranks, update="async", local_updates=local_updates, pull_steps=64)


@levels({"game": TEST_GAMES}, {"envs": (16, 64, 256, 512)}, {"scaling": ("sqrt", "linear", "none")})
def step_size_rules(game: str = "pong", envs: int = 256, scaling: str = "sqrt", seed: int = 0) -> TrainConfig:
    """Section 5.3 scales A2C's learning rate with the batch size: by its square root (the best), linearly (Clemente et
    al. 2017) or not at all."""
    config = a2c_scaling(game, envs, seed)
    bound = {} if scaling == "none" else {"max_learning_rate": 1.0}
    algo: Any = replace(config.algo, learning_rate_scaling=scaling, **bound)  # type: ignore[call-arg]
    return replace(config, algo=algo)


@levels({"game": TEST_GAMES}, {"envs": (256, 512)}, {"warmup": (0.0, 0.05)}, {"decorrelated": (True, False)})
def step_size_warmup(
    game: str = "pong", envs: int = 512, warmup: float = 0.05, decorrelated: bool = True, seed: int = 0
) -> TrainConfig:
    """In section 5.3, warmup of the learning rate (Goyal et al. 2017: 5 of 90 epochs) had no effect if random first
    actions decorrelated the start states. Without random first actions, learning failed early in some runs."""
    config = a2c_scaling(game, envs, seed)
    algo: Any = replace(config.algo, warmup=warmup)  # type: ignore[call-arg]
    steps = config.sampler.decorrelation_steps if decorrelated else 0
    return replace(config, algo=algo, sampler=replace(config.sampler, decorrelation_steps=steps))
