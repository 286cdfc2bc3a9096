"""Stooke & Abbeel 2018 (arXiv:1803.02811): many simulators (section 5.3), large batches (section 5.4), and many
learners, synchronous or not (sections 4.2, 4.3 and 5.5).

`accel-rl train experiments.stooke:a2c_scaling --game pong --envs 64`
"""

from dataclasses import replace
from typing import Any

from accel_rl.config import SecondaryConfig, TrainConfig, default_config

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


def dqn_scaling(game: str = "breakout", batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Figure 4, top: batches of 32, 512 and 1,024 at training intensity 8."""
    return _q_curve("dqn", game, batch_size, _DQN_STEP_SIZES, seed)


def c51_scaling(game: str = "breakout", batch_size: int = 2_048, seed: int = 0) -> TrainConfig:
    """Figure 4, bottom: batches of 32 to 2,048; one step size from 256 on."""
    return _q_curve("c51", game, batch_size, _C51_STEP_SIZES, seed)


def rainbow_512(game: str = "breakout", seed: int = 0) -> TrainConfig:
    """Figure 12: epsilon-Rainbow at a batch of 512, with the published step size."""
    return _q_curve("rainbow", game, 512, {512: 6.25e-5}, seed)


def a2c_ranks(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Table 2, A2C: 16 environments a GPU, one gradient of all."""
    return _together(_curve("a2c", game, 16 * ranks, 5, seed), ranks)


def ppo_ranks(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Table 2, PPO: 8 environments a GPU, a batch of 2,048 in all."""
    return _together(ppo_scaling(game, 8 * ranks, seed), ranks)


def a3c(game: str = "pong", ranks: int = 8, seed: int = 0) -> TrainConfig:
    """Figure 3, second row, and Table 2: 1 to 32 learners of 16 environments, A2C's settings unchanged."""
    return _together(_curve("a2c", game, 16, 5, seed), ranks, update="async")


def appo(game: str = "pong", ranks: int = 8, local_updates: int = 1, seed: int = 0) -> TrainConfig:
    """Figure 3, bottom, and Table 2: learners of 8 environments, 1 to 4 updates between pushes, the gradient's norm
    clipped, a quarter of PPO's step size and no schedule."""
    base = _curve("ppo", game, 8, 256, seed)
    rate = base.algo.learning_rate / 4  # type: ignore[attr-defined]
    algo: Any = replace(
        base.algo, learning_rate=rate, learning_rate_schedule="constant", clip_schedule="constant", clip_grad_norm=0.5
    )  # type: ignore[call-arg]
    return _together(replace(base, algo=algo), ranks, update="async", local_updates=local_updates, pull_steps=64)


def async_dqn(game: str = "breakout", ranks: int = 4, batch_size: int = 512, seed: int = 0) -> TrainConfig:
    """Section 5.4.1 and Table 3 (*): up to 4 learners, each with a batch of 512."""
    return _together(dqn_scaling(game, batch_size, seed), ranks, update="async")


def secondary_learner(
    game: str = "breakout", batch_size: int = 2_048, secondary: int = 64, seed: int = 0
) -> TrainConfig:
    """Section 5.4.2, Figures 6 to 8: (64, 2048), (2048, 64) and (256, 256). A step size between those of section 5.4.1
    where the paper names none."""
    config = _q_curve("dqn", game, batch_size, _DQN_STEP_SIZES, seed)
    rate = _step_size(_DQN_STEP_SIZES, secondary)
    return replace(config, secondary=SecondaryConfig(secondary, rate), log=replace(config.log, norms=True))


def update_rules(
    game: str = "qbert", rule: str = "adam", batch_size: int = 64, learning_rate: float = 4.2e-4, seed: int = 0
) -> TrainConfig:
    """Appendix C, Figure 9: norms of parameters, gradients and steps under Adam and RMSProp, batches of 64 to 1,024
    (RMSProp needed 20 times the step size at the largest)."""
    config = _q_curve("c51", game, batch_size, {batch_size: learning_rate}, seed)
    algo: Any = replace(config.algo, rule=rule)  # type: ignore[call-arg]
    return replace(config, algo=algo, log=replace(config.log, norms=True))


_DQN_STEP_SIZES = {32: 2.5e-4, 512: 7.5e-4, 1_024: 15e-4}  # section 5.4.1
_C51_STEP_SIZES = {32: 2.5e-4, 256: 4.2e-4}  # section 5.4.1; Bellemare et al. 2017 at 32


def _step_size(known: dict[int, float], batch_size: int) -> float:
    """That of the largest batch not above this one."""
    return known[max((b for b in known if b <= batch_size), default=min(known))]


def _q_curve(algorithm: str, game: str, batch_size: int, step_sizes: dict[int, float], seed: int) -> TrainConfig:
    base = default_config(algorithm)
    rate = _step_size(step_sizes, batch_size)
    algo: Any = replace(base.algo, batch_size=batch_size, learning_rate=rate)  # type: ignore[call-arg]
    return replace(base, env=replace(base.env, game=game), algo=algo, env_steps=STEPS, seed=seed)


def _together(config: TrainConfig, ranks: int, **group: Any) -> TrainConfig:
    if ranks < 1:
        raise ValueError(f"ranks={ranks} must be at least 1")
    return replace(config, group=replace(config.group, ranks=ranks, **group))


def _curve(algorithm: str, game: str, envs: int, horizon: int, seed: int) -> TrainConfig:
    base = default_config(algorithm)
    return replace(
        base,
        env=replace(base.env, game=game),
        sampler=replace(base.sampler, envs=envs, horizon=horizon),
        env_steps=STEPS,
        seed=seed,
    )
