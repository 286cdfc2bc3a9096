"""Compares the complete settings of a run with the settings of the runs behind a published number.

A report may show a published number next to a run with other settings, but always lists the differences.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from accel_rl.distributed.distributed_config import DistributedConfig
from accel_rl.envs.protocols import OVERRIDES, resolve
from accel_rl.metrics.nested import flat
from accel_rl.settings.registry import ALGORITHMS
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError

Settings = Mapping[str, Any]
"""`Settings` maps the full name of a setting to its value: {"algo.batch_size": 512, ...}. A setting that is missing in
a run's `Settings` has its default value."""

POLICY_GRADIENTS = {"a2c": ("A2C", "A3C"), "ppo": ("PPO", "APPO")}
Q_LEARNING = {"dqn": "DQN", "c51": "Categorical-DQN", "rainbow": "Rainbow"}
FAMILIES = tuple(f for pair in POLICY_GRADIENTS.values() for f in pair) + tuple(
    prefix + name for name in Q_LEARNING.values() for prefix in ("", "Async-")
)
"""`FAMILIES` lists the families of algorithms in their order in the papers' figures, from top to bottom."""


def ranks(settings: Settings) -> int:
    gpus = DistributedConfig(gpus=str(settings.get("distributed.gpus") or "")).named_gpus
    return int(settings.get("distributed.ranks") or len(gpus) or 1)


def asynchronous(settings: Settings) -> bool:
    return settings.get("distributed.update") == "async"


def plays_atari(settings: Settings) -> bool:
    """Whether the environment is one of the Atari games, not a Gymnasium id such as CartPole-v1."""
    return not settings.get("env.id")


def samples_only(settings: Settings) -> bool:
    return str(settings.get("algorithm", "")).rpartition(":")[2] == "SamplingOnly"


def total_envs(settings: Settings) -> int | None:
    """Number of environments of all ranks together, or None if unknown. `sampler.envs` is the total over synchronous
    ranks, and the number per asynchronous rank."""
    if (envs := settings.get("sampler.envs")) is None:
        return None
    return int(envs) * (ranks(settings) if asynchronous(settings) else 1)


def family(settings: Settings) -> str:
    """The family of a run's algorithm, one of FAMILIES, or "" if Stooke & Abbeel 2018 do not train the algorithm."""
    algorithm, update = str(settings.get("algorithm", "")), asynchronous(settings)
    if algorithm in POLICY_GRADIENTS:
        return POLICY_GRADIENTS[algorithm][update]
    return ("Async-" if update else "") + Q_LEARNING[algorithm] if algorithm in Q_LEARNING else ""


def is_policy_gradient(settings: Settings) -> bool:
    return settings.get("algorithm") in POLICY_GRADIENTS


def name(settings: Settings) -> str:
    """The run's name in the figures of Stooke & Abbeel 2018, such as A2C-256env, A3C-16env-8 (8 learners of 16
    environments) or DQN-512 (batch size 512), or "" for an algorithm that the paper does not train."""
    if samples_only(settings):
        return f"Sampling-{total_envs(settings)}env-{'async' if asynchronous(settings) else 'sync'}"
    if not (result := family(settings)):
        return ""
    size = f"{settings.get('sampler.envs')}env" if is_policy_gradient(settings) else settings.get("algo.batch_size")
    return f"{result}-{size}" + (f"-{ranks(settings)}" if asynchronous(settings) else "")


def differences(settings: Settings, published: Mapping[str, Any]) -> list[str]:
    """A text such as `intensity=1 (paper: 8)` for each setting in which a run differs from the published settings."""
    completed = complete(settings)
    result = []
    for name, value in published.items():
        allowed = value if isinstance(value, list) else [value]
        got = completed.get(name)
        if (got := list(got) if isinstance(got, tuple) else got) not in allowed:
            result.append(f"{name.rpartition('.')[2]}={_text(got)} (paper: {_text(allowed[0])})")
    return result


def complete(settings: Settings) -> dict[str, Any]:
    """The settings, completed by all defaults, the rules of the Atari protocol, and derived settings.

    The derived settings are `learners` (number of gradients that are computed in parallel), `actors` (number of
    processes or ranks that sample), and `rollout` (number of samples in an optimisation phase of all synchronous
    ranks)."""
    result = {**defaults(str(settings.get("algorithm"))), **{k: v for k, v in settings.items() if v is not None}}
    result |= _rules(result)
    on_cluster = result.get("cluster") == "gorila"
    bundles, more = (int(result.get(f"gorila.{name}") or 0) for name in ("bundles", "learners"))
    result["learners"] = ranks(result) * (bundles + more if on_cluster else 1)
    if result.get("sampler.horizon") is None:
        result["sampler.horizon"] = _horizon(result)
    if (T := result["sampler.horizon"]) is not None:
        result["rollout"] = int(T) * int(result.get("sampler.envs") or 0)
    result["update"] = "async" if asynchronous(result) or on_cluster else "sync"
    return result


@cache
def defaults(algorithm: str) -> dict[str, Any]:
    """The defaults of this package's algorithms. Return {} for a user's algorithm, whose module is not imported."""
    return dict(flat(default_config(algorithm).to_dict())) if algorithm in ALGORITHMS else {}


def _rules(settings: Settings) -> dict[str, Any]:
    """{"env.RULE": value} of the resolved Atari protocol, or {} for other environments and unknown protocols."""
    if settings.get("env.id"):
        return {}
    try:
        rules = resolve(str(settings.get("env.protocol")), {name: settings.get(f"env.{name}") for name in OVERRIDES})
    except ConfigError:
        return {}
    return {f"env.{name}": getattr(rules, name) for name in OVERRIDES}


def _horizon(settings: Settings) -> int | None:
    """The default horizon of an algorithm with a replay."""
    if (batch := settings.get("algo.batch_size")) is None:
        return None
    return max(2, round(int(batch) / (float(settings["algo.intensity"]) * int(settings["sampler.envs"]))))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
