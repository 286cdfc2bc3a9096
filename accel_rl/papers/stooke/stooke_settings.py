"""The settings that the experiments share are from Stooke & Abbeel 2018. Settings that the text does not specify are
from the paper's published code."""

from dataclasses import replace
from typing import Any

from accel_rl.envs.atari_games import ATARI_49, ATARI_57
from accel_rl.settings.train import TrainConfig, default_config

STEPS = 50_000_000
"""The length of a learning curve is 50 M env steps (section 5.3: 200 M frames)."""

TEST_GAMES = ("beam_rider", "breakout", "pong", "qbert", "seaquest", "space_invaders")
"""The games of Figures 3 to 5. The paper names Breakout, Pong and Seaquest; this project chose the other three."""

POLICY_GRADIENT_GAMES = tuple(sorted({*ATARI_49, "pitfall"} - {"hero"}))
"""Figures 10 and 11 show the games of Schulman et al. 2017, as in the paper's published code."""

Q_LEARNING_GAMES = tuple(g for g in ATARI_57 if g != "surround")
"""Figure 12 shows the 57 games without surround, as in the paper's published code."""

POLICY_GRADIENT: dict[str, dict[str, Any]] = {
    # Lasagne's RMSProp adds epsilon inside the square root; this project's default for A2C adds epsilon outside.
    "a2c": {"optimizer": "rmsprop", "rmsprop_alpha": 0.9, "optimizer_eps": 1e-6},
    "ppo": {
        "minibatch": 512,
        "value_coefficient": 1.0,
        "clip_grad_norm": 0.0,  # In section 5.3, only APPO clips the gradient norm.
        "normalize_advantage": "none",
        "clip_schedule": "linear",  # PPO's clip range shrinks with the learning rate.
        "optimizer": "adam-epsilon-hat",  # appendix A
    },
}
"""`POLICY_GRADIENT` lists, for each algorithm, the settings of the published code that differ from this project's
defaults."""

Q_STEP_SIZES: dict[str, dict[int, float]] = {
    "dqn": {32: 2.5e-4, 512: 7.5e-4, 1_024: 15e-4},  # section 5.4.1
    "c51": {
        32: 2.5e-4,
        256: 4.2e-4,
    },  # The learning rates are from section 5.4.1 and, for batch size 32, from Bellemare et al. 2017.
    "rainbow": {512: 6.25e-5},  # In section 5.4.1, Rainbow has the learning rate of Hessel et al. 2018.
}
"""`Q_STEP_SIZES` maps an algorithm to {batch size: learning rate}. Between two listed batch sizes, the learning rate of
the smaller one applies."""


def step_size(algorithm: str, batch_size: int) -> float:
    """The learning rate of the largest batch size in `Q_STEP_SIZES` that is not above `batch_size`."""
    known = Q_STEP_SIZES[algorithm]
    return known[max((b for b in known if b <= batch_size), default=min(known))]


def policy_gradient(algorithm: str, game: str, envs: int, horizon: int, seed: int) -> TrainConfig:
    """A2C or PPO on one learner, for 50 M env steps."""
    base = default_config(algorithm)
    algo: Any = replace(base.algo, **POLICY_GRADIENT[algorithm])
    sampler = replace(base.sampler, envs=envs, horizon=horizon)
    return replace(base, env=replace(base.env, game=game), algo=algo, sampler=sampler, env_steps=STEPS, seed=seed)


def q_learning(
    algorithm: str, game: str, batch_size: int, seed: int, learning_rate: float | None = None, **algo: Any
) -> TrainConfig:
    """DQN, C51 or epsilon-Rainbow on one learner, for 50 M env steps, with Adam as in appendix A."""
    base = default_config(algorithm)
    optimizer = {} if algorithm == "dqn" else {"optimizer": "adam-epsilon-hat"}
    rate = step_size(algorithm, batch_size) if learning_rate is None else learning_rate
    changed: Any = replace(base.algo, **{"batch_size": batch_size, "learning_rate": rate, **optimizer, **algo})
    return replace(base, env=replace(base.env, game=game), algo=changed, env_steps=STEPS, seed=seed)


def together(config: TrainConfig, ranks: int, **group: Any) -> TrainConfig:
    """Return `config` with `ranks` ranks. Raises ValueError if `ranks` is below 1."""
    if ranks < 1:
        raise ValueError(f"ranks={ranks} must be at least 1")
    return replace(config, distributed=replace(config.distributed, ranks=ranks, **group))
