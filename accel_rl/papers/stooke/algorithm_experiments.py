"""Experiments with A2C, A3C, PPO and APPO with many simulators and learners (sections 4.2, 4.3 and 5.3), and DQN, C51
and epsilon-Rainbow with large batches (section 5.4, appendices B and C)."""

from dataclasses import replace
from typing import Any

from accel_rl.papers.stooke.stooke_settings import (
    Q_LEARNING_GAMES,
    TEST_GAMES,
    policy_gradient,
    q_learning,
    step_size,
    together,
)
from accel_rl.settings.train import SecondaryConfig, TrainConfig
from accel_rl.sweeps.grid import Level, levels


@levels({"game": TEST_GAMES}, {"envs": (16, 32, 64, 128, 256, 512)})
def a2c_scaling(game: str = "pong", envs: int = 16, seed: int = 0) -> TrainConfig:
    """Figure 3 (top): A2C with 16 to 512 environments, a horizon of 5, and a learning rate that is scaled with the
    square root of the batch size."""
    return policy_gradient("a2c", game, envs, 5, seed)


@levels({"game": TEST_GAMES}, {"envs": (8, 16, 32, 64, 128, 256, 512)})
def ppo_scaling(game: str = "pong", envs: int = 8, seed: int = 0) -> TrainConfig:
    """Figure 3 (third row): PPO with 8 to 512 environments and horizons of 256 to 4, so that the batch size is always
    2,048."""
    if envs < 1 or 2_048 % envs:
        raise ValueError(f"envs={envs} must divide the batch of 2,048")
    return policy_gradient("ppo", game, envs, 2_048 // envs, seed)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8)})
def a2c_ranks(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Table 2: synchronous A2C with 16 environments per GPU."""
    return together(a2c_scaling(game, 16 * ranks, seed), ranks)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8)})
def ppo_ranks(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Table 2: synchronous PPO with 8 environments per GPU, and a total batch size of 2,048."""
    return together(ppo_scaling(game, 8 * ranks, seed), ranks)


@levels({"game": TEST_GAMES}, Level({"ranks": (1, 2, 4, 8, 16, 32)}, gpus=(1, 2, 4, 8, 8, 8)))
def a3c(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Figure 3 (second row) and Table 2: A3C with A2C's settings and 1 to 32 learners, each with 16 environments. 16 or
    32 learners share 8 GPUs."""
    return together(a2c_scaling(game, 16, seed), ranks, update="async")


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4, 8)}, {"local_updates": (1, 2, 3, 4)})
def appo(game: str = "pong", ranks: int = 8, local_updates: int = 1, seed: int = 0) -> TrainConfig:
    """Figure 3 (bottom) and Table 2: APPO with 8 environments per learner, and 1 to 4 updates between pushes. Unlike
    PPO, APPO clips the gradient norm, uses a quarter of the learning rate, and has no schedules."""
    base = ppo_scaling(game, 8, seed)
    rate = base.algo.learning_rate / 4
    algo: Any = replace(
        base.algo, learning_rate=rate, learning_rate_schedule="constant", clip_schedule="constant", clip_grad_norm=0.5
    )  # type: ignore[call-arg]
    return together(replace(base, algo=algo), ranks, update="async", local_updates=local_updates, pull_steps=64)


@levels({"game": TEST_GAMES}, {"envs": (16, 64, 256, 512)}, {"scaling": ("sqrt", "linear", "none")})
def step_size_rules(game: str = "pong", envs: int = 256, scaling: str = "sqrt", seed: int = 0) -> TrainConfig:
    """Section 5.3: A2C's learning rate is scaled with the square root of the batch size (the best rule), linearly
    (Clemente et al. 2017) or not at all."""
    config = a2c_scaling(game, envs, seed)
    bound: Any = {} if scaling == "none" else {"max_learning_rate": 1.0}
    algo: Any = replace(config.algo, learning_rate_scaling=scaling, **bound)  # type: ignore[call-arg]
    return replace(config, algo=algo)


@levels({"game": TEST_GAMES}, {"envs": (256, 512)}, {"warmup": (0.0, 0.05)}, {"decorrelated": (True, False)})
def step_size_warmup(
    game: str = "pong", envs: int = 512, warmup: float = 0.05, decorrelated: bool = True, seed: int = 0
) -> TrainConfig:
    """Section 5.3: a warmup of the learning rate (Goyal et al. 2017: 5 of 90 epochs). In the paper, the warmup had no
    effect if random first actions decorrelated the start states. Without random first actions, learning failed early in
    some runs."""
    config = a2c_scaling(game, envs, seed)
    algo: Any = replace(config.algo, warmup=warmup)  # type: ignore[call-arg]
    steps = config.sampler.decorrelation_steps if decorrelated else 0
    return replace(config, algo=algo, sampler=replace(config.sampler, decorrelation_steps=steps))


@levels({"game": TEST_GAMES}, {"batch_size": (32, 512, 1_024)})
def dqn_scaling(game: str = "breakout", batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Figure 4 (top): DQN with batch sizes of 32, 512 and 1,024 at training intensity 8."""
    return q_learning("dqn", game, batch_size, seed)


@levels({"game": TEST_GAMES}, {"batch_size": (32, 256, 512, 1_024, 2_048)})
def c51_scaling(game: str = "breakout", batch_size: int = 2_048, seed: int = 0) -> TrainConfig:
    """Figure 4 (bottom): Categorical DQN with batch sizes of 32 to 2,048. The learning rate is the same for all batch
    sizes from 256 up."""
    return q_learning("c51", game, batch_size, seed)


@levels({"game": Q_LEARNING_GAMES})
def rainbow_512(game: str = "breakout", seed: int = 0) -> TrainConfig:
    """Figure 12: epsilon-Rainbow with a batch size of 512 and the learning rate of Hessel et al. 2018."""
    return q_learning("rainbow", game, 512, seed)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4)})
def async_dqn(game: str = "breakout", ranks: int = 4, batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Section 5.4.1 and Table 3 (*): DQN with up to 4 asynchronous learners, each with a batch size of 512."""
    return together(dqn_scaling(game, batch_size, seed), ranks, update="async")


@levels({"game": TEST_GAMES}, {"envs": (16, 64, 128, 256)}, {"batch_size": (32, 512)})
def dqn_simulators(game: str = "breakout", envs: int = 256, batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Section 5.3: DQN with more than 200 simulators, and a replay of one million transitions that is organised by
    simulator. The large batch size shortens the optimisation phases."""
    config = dqn_scaling(game, batch_size, seed)
    return replace(config, sampler=replace(config.sampler, envs=envs))


@levels(Level({"batch_size": (2_048, 64, 256), "secondary": (64, 2_048, 256)}))
def secondary_learner(
    game: str = "breakout", batch_size: int = 2_048, secondary: int = 64, seed: int = 0
) -> TrainConfig:
    """Section 5.4.2 and Figures 6 to 8: a learner that samples, and a secondary learner that trains on the first
    learner's replay. The learning rates of both learners are from section 5.4.1. If the paper reports no learning rate
    for a batch size, that of the next smaller batch size is used."""
    config, rate = dqn_scaling(game, batch_size, seed), step_size("dqn", secondary)
    return replace(config, secondary=SecondaryConfig(secondary, rate), log=replace(config.log, norms=True))


@levels(
    # With RMSProp, the paper multiplies the learning rate by 20 from batch size 64 to 1,024 (appendix C). The paper
    # does not report two learning rates: that of batch size 64 is DQN's 2.5e-4, and that of 256 is interpolated.
    Level(
        {
            "optimizer": ("adam",) * 3 + ("rmsprop",) * 5,
            "batch_size": (64, 256, 1_024, 64, 256, 1_024, 64, 64),
            "learning_rate": (4.2e-4,) * 3 + (2.5e-4, 1.25e-3, 5e-3, 1e-4, 5e-4),
        }
    )
)
def optimizers(
    game: str = "qbert", optimizer: str = "adam", batch_size: int = 64, learning_rate: float = 4.2e-4, seed: int = 0
) -> TrainConfig:
    """Appendix C and Figure 9 compare the norms of parameters, gradients and steps with Adam and with RMSProp, at batch
    sizes of 64 to 1,024. At the largest batch size, RMSProp needed 20 times the learning rate of the smallest batch
    size. As in appendix A, Adam's epsilon is 0.01 / batch size. RMSProp's epsilon is 1e-6 inside the root at all batch
    sizes, as in Lasagne."""
    settings = {"adam": {}, "rmsprop": {"optimizer": "rmsprop", "optimizer_eps": 1e-6}}
    if optimizer not in settings:
        raise ValueError(f"optimizer={optimizer!r}: must be one of {', '.join(settings)}")
    config = q_learning("c51", game, batch_size, seed, learning_rate, **settings[optimizer])
    return replace(config, log=replace(config.log, norms=True))
