"""The short runs of the golden curves: all algorithms, alternating and concurrent training, an LSTM, time limits, two
ranks.

Every run lasts as long as its schedules, so that the learning rate, the clip range, epsilon and beta change during the
run. In runs of Q-learning, the target network is copied several times.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel_rl.settings.train import TrainConfig, default_config

if TYPE_CHECKING:
    import gymnasium


def short_pole() -> "gymnasium.Env":
    """Make CartPole with a time limit of 12 steps, which most episodes reach."""
    import gymnasium  # not needed for games

    return gymnasium.make("CartPole-v1", max_episode_steps=12)


POLE = "tests.golden.runs:short_pole"
SMALL = {"batch_size": 16, "intensity": 2.0, "target_interval": 64, "epsilon_steps": 100, "network": "a3c"}
"""Settings of Q-learning, with eight updates between two copies of the target network."""
SEQUENCES = {
    **{"batch_size": 4, "length": 8, "burn_in": 4, "period": 4, "n_step": 3, "lstm": 16, "hidden": (16,)},
    **{"target_unit": "env-steps", "epsilon_steps": 0},
}
"""Settings of R2D2, with 32 trained steps per update."""
LINEAR = {"learning_rate_schedule": "linear"}
# The clip range is 0.02 instead of 0.2, which the policy ratios of such short runs never exceed.
LINEAR_CLIP = {"clip": 0.02, "clip_schedule": "linear"}


def config(
    algorithm: str, env: str = "pong", envs: int = 8, horizon: int = 5, env_steps: int = 100_000, **algo: Any
) -> TrainConfig:
    """Return the settings of a reproducible run, with one process and one torch thread. The argument `env` is a game or
    a Gymnasium id."""
    base = default_config(algorithm)
    is_game = env.isidentifier()
    if hasattr(base.algo, "replay"):
        algo = {**SMALL, "replay": replace(base.algo.replay, size=2_000, start=80), **algo}
    return replace(
        base,
        env=replace(base.env, game=env) if is_game else replace(base.env, id=env),
        algo=replace(base.algo, **algo),
        sampler=replace(base.sampler, engine="in-process", envs=envs, horizon=horizon, decorrelation_steps=60),
        evaluation=replace(base.evaluation, interval=0),
        checkpoint=replace(base.checkpoint, interval=0),
        env_steps=env_steps,
        seed=1,
        torch_threads=1,
        device="cpu",
    )


RUNS: dict[str, TrainConfig] = {  # The runs are short, because rounding errors grow with each update.
    "a2c, pong": config("a2c", env_steps=960, warmup=0.25, **LINEAR),
    "a2c, LSTM and GAE, time limits": config("a2c", POLE, env_steps=960, lstm=8, gae_lambda=0.9),
    "ppo, time limits": config(
        "ppo", POLE, horizon=16, env_steps=512, minibatch=64, epochs=3, value_clip=0.2, **LINEAR_CLIP
    ),
    "ppo, pong": config("ppo", horizon=8, env_steps=384, minibatch=32, epochs=2),
    "pqn, time limits": config("pqn", POLE, horizon=16, env_steps=768, minibatch=64, epochs=2, exploration=0.5),
    "impala, pong": config("impala", env_steps=960, window=5, batches=2, **LINEAR),
    "dqn, pong": config("dqn", horizon=4, env_steps=256, **LINEAR),
    "dqn, double, dueling, three steps, time limits": config(
        "dqn", POLE, horizon=4, env_steps=256, double=True, dueling=True, n_step=3, learning_rate=1e-3
    ),
    "dqn, concurrent": replace(
        config("dqn", POLE, horizon=4, env_steps=320, learning_rate=1e-3), schedule="concurrent"
    ),
    "c51, pong": config("c51", horizon=4, env_steps=256, **LINEAR),
    "qrdqn": config("qrdqn", POLE, horizon=4, env_steps=256, quantiles=11, n_step=2, learning_rate=1e-3),
    "iqn, munchausen": config(
        "iqn",
        POLE,
        horizon=4,
        env_steps=256,
        quantiles=7,
        target_quantiles=5,
        value_quantiles=4,
        munchausen=0.9,
        learning_rate=1e-3,
    ),
    "rainbow, time limits": config(
        "rainbow", POLE, horizon=4, env_steps=256, noisy=True, v_max=20.0, v_min=0.0, learning_rate=1e-3
    ),
    "r2d2, time limits": config("r2d2", POLE, horizon=4, env_steps=480, learning_rate=1e-3, **SEQUENCES),
}

RANKS: dict[str, tuple[str, ...]] = {
    "a2c, two ranks": ("a2c", "--ranks", "2"),
    "appo, one asynchronous rank": ("ppo", "--update", "async", "--local-updates", "2", "--minibatch", "32"),
}
"""Maps the name of a CartPole run with ranks in separate processes to its flags."""
