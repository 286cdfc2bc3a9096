"""Names of runs in Stooke & Abbeel 2018: the family (A2C, A3C ...) and the name in figures (A2C-256env)."""

from collections.abc import Mapping
from typing import Any

Settings = Mapping[str, Any]
"""A run's settings by full name: {"algo.batch_size": 512, ...}. An absent setting has its default."""

POLICY_GRADIENTS = {"a2c": ("A2C", "A3C"), "ppo": ("PPO", "APPO")}
Q_LEARNING = {"dqn": "DQN", "c51": "Categorical-DQN", "rainbow": "Rainbow"}
FAMILIES = tuple(f for pair in POLICY_GRADIENTS.values() for f in pair) + tuple(
    prefix + name for name in Q_LEARNING.values() for prefix in ("", "Async-")
)
"""Families in the order of the figures, from top to bottom."""


def ranks(settings: Settings) -> int:
    gpus = str(settings.get("distributed.gpus") or "").replace(",", " ").split()
    return int(settings.get("distributed.ranks") or len(gpus) or 1)


def asynchronous(settings: Settings) -> bool:
    return settings.get("distributed.update") == "async"


def plays_atari(settings: Settings) -> bool:
    """Whether the environment is one of the games, not a Gymnasium id such as CartPole-v1."""
    return not settings.get("env.id")


def samples_only(settings: Settings) -> bool:
    """Whether the run only measures sampling, without learning."""
    return str(settings.get("algorithm", "")).rpartition(":")[2] == "SamplingOnly"


def total_envs(settings: Settings) -> int | None:
    """Return the number of environments of all ranks; None if the settings do not have it.

    `sampler.envs` is the total of synchronous ranks, and the number of each asynchronous rank.
    """
    if (envs := settings.get("sampler.envs")) is None:
        return None
    return int(envs) * (ranks(settings) if asynchronous(settings) else 1)


def family(settings: Settings) -> str:
    """Return the family of a run, one of FAMILIES; "" for an algorithm that is not in the paper."""
    algorithm, update = str(settings.get("algorithm", "")), asynchronous(settings)
    if algorithm in POLICY_GRADIENTS:
        return POLICY_GRADIENTS[algorithm][update]
    return ("Async-" if update else "") + Q_LEARNING[algorithm] if algorithm in Q_LEARNING else ""


def is_policy_gradient(settings: Settings) -> bool:
    return settings.get("algorithm") in POLICY_GRADIENTS


def name(settings: Settings) -> str:
    """Return the name of a run in the paper's figures; "" for an algorithm that is not in the paper.

    A2C-256env; A3C-16env-8 (8 learners of 16 environments); DQN-512 (batch size 512).
    """
    if samples_only(settings):
        return f"Sampling-{total_envs(settings)}env-{'async' if asynchronous(settings) else 'sync'}"
    if not (found := family(settings)):
        return ""
    size = f"{settings.get('sampler.envs')}env" if is_policy_gradient(settings) else settings.get("algo.batch_size")
    return f"{found}-{size}" + (f"-{ranks(settings)}" if asynchronous(settings) else "")
