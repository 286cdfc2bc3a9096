"""The experiments train DQN, C51 and epsilon-Rainbow with large batches (section 5.4, appendices B and C)."""

from dataclasses import replace

from accel_rl.config.train import SecondaryConfig, TrainConfig
from accel_rl.papers.stooke.stooke_settings import Q_LEARNING_GAMES, TEST_GAMES, q_learning, step_size, together
from accel_rl.sweeps.grid import Level, levels


@levels({"game": TEST_GAMES}, {"batch_size": (32, 512, 1_024)})
def dqn_scaling(game: str = "breakout", batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Figure 4, top, has DQN with batches of 32, 512 and 1,024 at training intensity 8."""
    return q_learning("dqn", game, batch_size, seed)


@levels({"game": TEST_GAMES}, {"batch_size": (32, 256, 512, 1_024, 2_048)})
def c51_scaling(game: str = "breakout", batch_size: int = 2_048, seed: int = 0) -> TrainConfig:
    """Figure 4, bottom, has Categorical DQN with batches of 32 to 2,048. In Figure 4, batch sizes from 256 up share one
    learning rate."""
    return q_learning("c51", game, batch_size, seed)


@levels({"game": Q_LEARNING_GAMES})
def rainbow_512(game: str = "breakout", seed: int = 0) -> TrainConfig:
    """Figure 12 has epsilon-Rainbow with a batch size of 512 and the published learning rate."""
    return q_learning("rainbow", game, 512, seed)


@levels({"game": TEST_GAMES}, {"ranks": (1, 2, 4)})
def async_dqn(game: str = "breakout", ranks: int = 4, batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Section 5.4.1 and Table 3 (*) have up to 4 asynchronous learners, each with a batch size of 512."""
    return together(dqn_scaling(game, batch_size, seed), ranks, update="async")


@levels({"game": TEST_GAMES}, {"envs": (16, 64, 128, 256)}, {"batch_size": (32, 512)})
def dqn_simulators(game: str = "breakout", envs: int = 256, batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Section 5.3 uses a replay of one million transitions, organised by simulator, with more than 200 simulators. The
    experiment's large batch size avoids long optimisation phases."""
    config = dqn_scaling(game, batch_size, seed)
    return replace(config, sampler=replace(config.sampler, envs=envs))


@levels(Level({"batch_size": (2_048, 64, 256), "secondary": (64, 2_048, 256)}))
def secondary_learner(
    game: str = "breakout", batch_size: int = 2_048, secondary: int = 64, seed: int = 0
) -> TrainConfig:
    """Section 5.4.2 and Figures 6 to 8 have a learner that samples, and a secondary learner that trains on the first
    learner's replay. The learning rates of the two learners are those of section 5.4.1. A batch size without a reported
    learning rate has the rate of the next smaller batch size."""
    config, rate = dqn_scaling(game, batch_size, seed), step_size("dqn", secondary)
    return replace(config, secondary=SecondaryConfig(secondary, rate), log=replace(config.log, norms=True))


@levels(
    # With RMSProp, Stooke & Abbeel's learning rate grows 20 times from batch size 64 to 1,024 (appendix C).
    # Stooke & Abbeel do not report the rates at batch sizes 64 (here DQN's 2.5e-4) and 256 (here interpolated).
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
    """Appendix C and Figure 9 compare norms of parameters, gradients and steps under Adam and RMSProp, with batches of
    64 to 1,024. RMSProp needed 20 times the learning rate at the largest batch size. As in appendix A, Adam's epsilon
    is 0.01 / batch size. RMSProp's epsilon is 1e-6 inside the root at all batch sizes, as in Lasagne."""
    settings = {"adam": {}, "rmsprop": {"optimizer": "rmsprop", "optimizer_eps": 1e-6}}
    if optimizer not in settings:
        raise ValueError(f"optimizer={optimizer!r}: must be one of {', '.join(settings)}")
    config = q_learning("c51", game, batch_size, seed, learning_rate, **settings[optimizer])
    return replace(config, log=replace(config.log, norms=True))
