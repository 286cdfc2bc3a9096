"""Configurations for two CPU cores, which learn Pong within six minutes to two hours, and CartPole. `accel-rl train
experiments.cpu:pong_a2c` trains one configuration, and further options such as `--seed 2 --env-steps 2e6` change
settings.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from accel_rl.settings.outputs import EvaluationConfig
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Grid, grid


def pong_a2c(seed: int = 1) -> TrainConfig:
    """A2C with 16 environments (Stooke & Abbeel 2018, section 5.3) learns Pong from about -21 to above 0 within 4 M env
    steps."""
    return _pong("a2c", 4_000_000, seed)


def pong_a3c(seed: int = 1) -> TrainConfig:
    """A3C learns Pong with two asynchronous learners of 16 environments, one core each (Stooke & Abbeel 2018, section
    5.3)."""
    base = _pong("a2c", 4_000_000, seed)
    return replace(base, distributed=replace(base.distributed, ranks=2, update="async"))


def pong_ppo(seed: int = 1) -> TrainConfig:
    """PPO with its default settings reaches a score above +10 on Pong within 2 M env steps."""
    return _pong("ppo", 2_000_000, seed)


def pong_pqn(seed: int = 1) -> TrainConfig:
    """PQN reaches an evaluation above 18 on Pong within 6 minutes, without a GPU and in float32 (docs/algorithms.md,
    Trials of PQN). With one epoch per rollout instead of two, PQN makes nearly twice as many env steps in the same
    time. On Breakout, PQN scores more with two epochs."""
    base = _pong("pqn", 1_800_000, seed)
    return replace(
        base,
        sampler=replace(base.sampler, envs=16, horizon=64),
        algo=replace(base.algo, epochs=1),  # type: ignore[call-arg]
        evaluation=EvaluationConfig(interval=900_000, episodes=30),
    )


def cartpole_a2c(seed: int = 1) -> TrainConfig:
    """A2C reaches the score 500 on CartPole-v1. The learning rate decays to zero, which keeps the learned policy
    stable."""
    return _cartpole("a2c", 500_000, seed, {"envs": 8, "horizon": 5}, _ACTOR_CRITIC)


def cartpole_impala(seed: int = 1) -> TrainConfig:
    """IMPALA with V-trace reaches the score 500 on CartPole-v1, with an update on one of four groups of environments at
    each step."""
    return _cartpole("impala", 500_000, seed, {"envs": 16, "horizon": 1}, {**_ACTOR_CRITIC, "window": 8, "batches": 4})


def cartpole_ppo(seed: int = 1) -> TrainConfig:
    """PPO reaches the score 500 on CartPole-v1 in a fifth of the env steps of A2C."""
    algo = {"minibatch": 256, "epochs": 20, "gae_lambda": 0.8, "gamma": 0.98, "entropy_coefficient": 0.0}
    return _cartpole("ppo", 100_000, seed, {"envs": 8, "horizon": 32}, algo)


def cartpole_pqn(seed: int = 1) -> TrainConfig:
    """PQN reaches the score 500 on CartPole-v1 in evaluations."""
    algo = {"minibatch": 128, "epochs": 4, "gae_lambda": 0.9, "learning_rate": 5e-4, "epsilon_final": 0.001}
    return _cartpole("pqn", 300_000, seed, {"envs": 16, "horizon": 32}, algo)


def pong_rainbow(seed: int = 1) -> TrainConfig:
    """Rainbow reaches a score above 0 on Pong within 90 minutes. The network is A3C's small network, and the learning
    rate is that of C51. Compared with Stooke & Abbeel 2018, the training intensity is half as high, the replay has a
    fifth of the size, the random start is shorter, and the target network is updated four times as often."""
    algo = {
        "network": "a3c",
        "intensity": 4.0,
        "epsilon_steps": 50_000,
        "target_interval": 2_000,
        "learning_rate": 2.5e-4,
    }
    base = _pong("rainbow", 1_000_000, seed)
    algo["replay"] = replace(base.algo.replay, size=200_000, start=5_000)  # type: ignore[attr-defined]
    return replace(
        base,
        algo=replace(base.algo, **algo),  # type: ignore[arg-type]
        evaluation=replace(base.evaluation, interval=100_000, steps=10_000),
    )


def cartpole_dqn(seed: int = 1) -> TrainConfig:
    """DQN reaches the score 500 on CartPole-v1 in evaluations; during training one action in fifty is random. DQN on
    CartPole uses 10-step returns and the squared loss. With 1-step returns and the Huber loss, the score is only 200 to
    400, because the learned values lag behind the policy, even more so with --schedule concurrent, where a snapshot of
    the network acts."""
    algo = {"double": True, "n_step": 10, "huber": 0.0, "clip_grad_norm": 10.0}
    return replace(_cartpole_q("dqn", seed, **algo), env_steps=80_000)


def cartpole_c51(seed: int = 1) -> TrainConfig:
    """C51 reaches the score 500 on CartPole-v1 in evaluations, with atoms from 0 to 60. A discount of 0.98 limits
    returns to 50, well within the atoms. With a discount of 0.99 and a last atom of 100, the returns of all good
    actions would lie at the last atom."""
    return _cartpole_q("c51", seed, double=True, n_step=3, **_RETURNS_TO_60)


def cartpole_rainbow(seed: int = 1) -> TrainConfig:
    """Rainbow reaches the score 500 on CartPole-v1 in evaluations."""
    return _cartpole_q("rainbow", seed, **_RETURNS_TO_60)


def step_sizes(seeds: Sequence[int] = (0, 1)) -> Grid:
    """An example of a sweep that takes minutes, 2 games x 3 learning rates x 2 seeds: `accel-rl sweep
    experiments.cpu:step_sizes`."""
    return grid(
        replace(default_config("a2c"), env_steps=20_000),
        {"game": ("pong", "breakout")},
        {"learning_rate": (3.5e-4, 7e-4, 1.4e-3)},
        seeds=seeds,
    )


_ACTOR_CRITIC = {
    "learning_rate_scaling": "none",
    "learning_rate_schedule": "linear",
    "entropy_coefficient": 0.0,
    "value_coefficient": 0.5,
}


_RETURNS_TO_60 = {"gamma": 0.98, "v_min": 0.0, "v_max": 60.0, "optimizer_eps": 1e-3}
_Q_LEARNING = {
    "batch_size": 64,
    "intensity": 32.0,
    "learning_rate": 2e-3,
    "learning_rate_schedule": "linear",
    "optimizer": "adam",
    "optimizer_eps": 1e-5,
    "reward_clip": 0.0,
    "target_interval": 256,
    "epsilon_steps": 8_000,
    "epsilon_final": 0.02,
    "epsilon_evaluation": 0.0,
}


def _cartpole_q(algorithm: str, seed: int, **algo: Any) -> TrainConfig:
    replay = replace(default_config(algorithm).algo.replay, size=50_000, start=1_000)  # type: ignore[attr-defined]
    return _cartpole(algorithm, 50_000, seed, {"envs": 4}, {**_Q_LEARNING, **algo, "replay": replay})


def _pong(algorithm: str, env_steps: int, seed: int) -> TrainConfig:
    base = default_config(algorithm)
    return replace(
        base,
        env=replace(base.env, game="pong"),
        evaluation=replace(base.evaluation, interval=500_000, steps=20_000),
        env_steps=env_steps,
        seed=seed,
    )


def _cartpole(algorithm: str, env_steps: int, seed: int, sampler: dict[str, Any], algo: dict[str, Any]) -> TrainConfig:
    base = default_config(algorithm)
    return replace(
        base,
        env=replace(base.env, id="CartPole-v1"),
        algo=replace(base.algo, **algo),
        # With a small network, worker processes and threads would cost more time than they save.
        sampler=replace(base.sampler, engine="in-process", **sampler),
        torch_threads=1,
        env_steps=env_steps,
        seed=seed,
    )
