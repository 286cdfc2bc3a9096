"""The options of all algorithms that change a loss, a target, an optimizer step or the number of optimizer steps.

The tested values of Literal and bool options are read from the Config classes, and those of numeric options from
`NUMBERS`.
"""

import types
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from accel_rl.algos.a2c import A2C, A2CConfig
from accel_rl.algos.algorithm import Algorithm
from accel_rl.algos.btr import BTR, BTRConfig
from accel_rl.algos.c51 import C51, C51Config
from accel_rl.algos.dqn import DQN, DQNConfig
from accel_rl.algos.impala import IMPALA, IMPALAConfig
from accel_rl.algos.iqn import IQN, IQNConfig
from accel_rl.algos.ppo import PPO, PPOConfig
from accel_rl.algos.pqn import PQN, PQNConfig
from accel_rl.algos.qrdqn import QRDQN, QRDQNConfig
from accel_rl.algos.r2d2 import R2D2, R2D2Config
from accel_rl.algos.rainbow import Rainbow, RainbowConfig
from accel_rl.replays.config import ReplayConfig
from accel_rl.text.bounds import bounds_of

REPLAY = ReplayConfig(size=600, start=60)
_CLIP = {"reward_clip": 1.0}
_Q = {**_CLIP, "replay": REPLAY, "batch_size": 12, "intensity": 1.0, "learning_rate": 1e-3, "hidden": (10, 8)}
_SEQUENCES = {
    **{"replay": replace(REPLAY, prioritized=True, alpha=0.9, beta=0.6, beta_final=0.6), "batch_size": 4, "lstm": 4},
    "intensity": 0.5,
    **{"length": 4, "burn_in": 3, "period": 5, "n_step": 3, "target_unit": "env-steps", "target_interval": 100},
}
_ROOT = {"optimizer": "rmsprop-torch", "optimizer_eps": 1e-5}

ALGORITHMS: dict[str, tuple[type[Algorithm], Any]] = {
    "a2c": (A2C, A2CConfig(**_CLIP, gae_lambda=0.9)),
    "ppo": (PPO, PPOConfig(**_CLIP, minibatch=11, epochs=2)),
    "impala": (IMPALA, IMPALAConfig(**_CLIP, window=6, batches=2, gae_lambda=0.9)),
    "pqn": (PQN, PQNConfig(**_CLIP, minibatch=11, epochs=2)),
    "dqn": (DQN, DQNConfig(**_Q, **_ROOT)),
    "c51": (C51, C51Config(**_Q, atoms=7, v_min=-2.0, v_max=2.0)),
    "qrdqn": (QRDQN, QRDQNConfig(**_Q, quantiles=5)),
    "iqn": (IQN, IQNConfig(**_Q, quantiles=5, target_quantiles=4, value_quantiles=3, cosines=6)),
    "btr": (
        BTR,
        BTRConfig(
            **_Q | {"replay": replace(REPLAY, prioritized=True)},
            quantiles=5,
            target_quantiles=4,
            value_quantiles=3,
            cosines=6,
            target_interval=10_000,
            target_unit="env-steps",
            munchausen_temperature=0.5,
        ),
    ),
    "rainbow": (Rainbow, RainbowConfig(**_Q | {"replay": replace(REPLAY, prioritized=True)}, atoms=7, v_max=3.0)),
    "r2d2": (R2D2, R2D2Config(**_Q | _SEQUENCES)),
}
"""Maps the name of an algorithm to its class and to the settings that a test case changes."""

NUMBERS: dict[str, tuple[Any, ...]] = {
    "learning_rate": (1e-3, 2e-4),
    "gamma": (0.99, 0.7, 0.0, 1.0),
    "gae_lambda": (0.9, 0.5, 0.0, 1.0),
    "value_coefficient": (0.25, 1.0, 0.0),
    "entropy_coefficient": (0.01, 0.3, 0.0),
    "clip_grad_norm": (0.05, 0.01, 0.0),
    "reward_clip": (1.0, 0.25, 0.0),
    "optimizer_eps": (1e-5, 1e-2),
    "lstm": (0, 4, 6),
    "warmup": (0.0, 0.5, 1.0),
    "reference_batch": (80, 5),
    "max_learning_rate": (3e-3, 8e-4),
    "rmsprop_alpha": (0.99, 0.5, 0.0),
    "clip": (0.2, 0.01),
    "value_clip": (0.0, 0.02),
    "epochs": (1, 3),
    "minibatch": (7, 12, 1_000),
    "target_kl": (0.0, 1e-4),
    "schedule_kl": (0.01, 1e3),
    "window": (3, 6),
    "batches": (1, 3),
    "rho_clip": (1.0, 0.9),
    "c_clip": (1.0, 0.8),
    "batch_size": (12, 20),
    "intensity": (1.0, 2.5),
    "n_step": (1, 2, 5),
    "huber": (1.0, 0.1, 0.0),
    "target_interval": (10_000, 50, 3),
    "hidden": ((10, 8), (16,), (8, 5, 4), ()),
    "length": (4, 2, 6),
    "burn_in": (3, 0, 7),
    "period": (5, 10),
    "eta": (0.9, 0.0, 1.0),
    "rescale": (1e-3, 0.1, 0.0),
    "atoms": (7, 2, 51),
    "quantiles": (5, 1, 32),
    "target_quantiles": (4, 1, 9),
    "value_quantiles": (3, 1, 8),
    "cosines": (6, 1),
    "munchausen": (0.9, 0.0, 0.5),
    "munchausen_temperature": (0.03, 0.5),
    "v_min": (-2.0, -0.5),
    "v_max": (2.0, 0.5),
    "replay.start": (60, 80, 0),
    "replay.alpha": (0.5, 1.0, 0.0),
    "replay.beta": (0.4, 0.0),
    "replay.beta_final": (1.0, 0.3),
}
"""Maps each numeric option to its tested values. The values of an option include 0 if 0 switches something off."""
NUMBERS_OF = {("r2d2", "batch_size"): (4, 7)}
"""Maps (algorithm, option) to the tested values, where these differ from those in NUMBERS."""

WITH: dict[str, dict[str, Any]] = {
    "rmsprop_alpha": {"optimizer": "rmsprop"},
    "warmup": {"reference_batch": 5},
    "max_learning_rate": {"reference_batch": 5},
    "learning_rate_scaling": {"reference_batch": 5, "max_learning_rate": 1.0},
    "clip_schedule": {"clip": 0.02},
    "clip": {"learning_rate": 3e-2},
    "value_clip": {"learning_rate": 3e-2},
    "target_kl": {"learning_rate": 3e-2, "epochs": 3},
    "learning_rate_schedule": {"schedule_kl": 1e-3},
    "schedule_kl": {"learning_rate_schedule": "kl", "learning_rate": 3e-2},
    "rho_clip": {"learning_rate": 1e-2},
    "c_clip": {"learning_rate": 1e-2},
    "target_unit": {"target_interval": 2},
    "munchausen_temperature": {"munchausen": 0.9},
    "munchausen_policy": {"munchausen": 0.9},
    "double": {"learning_rate": 3e-2},
    "replay.alpha": {"replay.prioritized": True},
    "replay.beta": {"replay.prioritized": True},
    "replay.beta_final": {"replay.prioritized": True},
    "priority": {"replay.prioritized": True},
    "replay.replacement": {"replay.prioritized": False, "batch_size": 120, "intensity": 8.0, "length": 2},
}
"""Maps an option to the other settings that are needed for the option to have an effect."""

NO_LOSS = {
    "network": "another function of the picture: tests/models/test_convolution.py",
    "normalize_rewards": "another reward: tests/algos/test_reward_norm.py",
    "normalize": "another function of the observation: tests/models/test_body.py",
    "activation": "another function of the observation: tests/models/test_body.py",
    "noisy_sigma": "initial weights: tests/models/test_q_network.py",
    "epsilon": "acts; no loss depends on it: tests/algos/test_dqn.py",
    "epsilon_final": "acts",
    "epsilon_steps": "acts",
    "epsilon_unit": "acts",
    "epsilon_spread": "acts",
    "epsilon_until": "acts: tests/algos/test_dqn.py",
    "epsilon_evaluation": "evaluates",
    "exploration": "acts",
    "replay.size": "how long a transition is kept: tests/replays/test_ring.py",
    "replay.device": "where the same numbers are computed: tests/replays/test_on_a_gpu.py",
}
"""Maps each settings field that changes no loss, target or optimizer step to the reason why it changes none."""

NO_LOSS_OF = {
    ("c51", "huber"): "the loss is a cross entropy",
    ("rainbow", "huber"): "the loss is a cross entropy",
    ("r2d2", "munchausen"): "its values are rescaled",
    ("r2d2", "munchausen_temperature"): "without Munchausen's term",
    ("r2d2", "munchausen_policy"): "without Munchausen's term",
}


@dataclass(frozen=True)
class Option:
    """A field of an algorithm's settings, and its tested values. The name of a replay setting begins with "replay."."""

    algorithm: str
    field: str
    values: tuple[Any, ...]


def options_of(algorithm: str) -> tuple[list[Option], list[str]]:
    """Return the algorithm's options, and the names of fields with neither tested values nor a reason in NO_LOSS."""
    config = ALGORITHMS[algorithm][1]
    found, missing = [], []
    for name, kind in _fields(type(config)):
        if name in NO_LOSS or (algorithm, name) in NO_LOSS_OF:
            continue
        named = [part for part in get_args(kind) if get_origin(part) is Literal]
        kind = named[0] if named else kind  # The type of `optimizer` is a Literal or a class of torch.optim.
        values = get_args(kind) if get_origin(kind) is Literal else (False, True) if kind is bool else ()
        values = values or NUMBERS_OF.get((algorithm, name)) or NUMBERS.get(name)
        if values:
            bound = bounds_of(type(config)).get(name)
            values = [x for x in values if bound is None or bound.holds(x)]
            found.append(Option(algorithm, name, tuple(values)))
        else:
            missing.append(name)
    return found, missing


def _fields(config: type) -> list[tuple[str, Any]]:
    hints = get_type_hints(config)
    found = []
    for f in fields(config):
        kind = hints[f.name]
        if isinstance(kind, types.UnionType):  # Fields of type `X | None` are tested like those of type X.
            (kind,) = (part for part in get_args(kind) if part is not types.NoneType)
        if kind is ReplayConfig:
            found += [(f"replay.{name}", inner) for name, inner in _fields(ReplayConfig)]
        else:
            found.append((f.name, kind))
    return found


def settings(option: Option, value: Any) -> Any:
    """Return the algorithm's settings with the option set to `value`."""
    known = {name for name, _ in _fields(type(ALGORITHMS[option.algorithm][1]))}
    others = {name: other for name, other in WITH.get(option.field, {}).items() if name in known}
    return changed(option.algorithm, others | {option.field: value})


def changed(algorithm: str, values: dict[str, Any]) -> Any:
    config = ALGORITHMS[algorithm][1]
    inner = {name.removeprefix("replay."): x for name, x in values.items() if name.startswith("replay.")}
    outer = {name: x for name, x in values.items() if not name.startswith("replay.")}
    if inner:
        outer["replay"] = replace(config.replay, **inner)
    return replace(config, **outer)
