"""Builds the settings of a run from Python values."""

import importlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from accel_rl.algos.algorithm import Algorithm, AlgorithmConfig
from accel_rl.settings.flags import full_name, with_setting
from accel_rl.settings.presets import with_chosen
from accel_rl.settings.registry import ALGORITHMS
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.text.errors import ConfigError

What = str | type[Algorithm] | AlgorithmConfig | TrainConfig
"""The type of an argument that gives an algorithm by its name, its class or its settings, or that gives all settings of
a run."""


def settings(what: What, env: str | Callable[..., Any] | None, values: dict[str, Any]) -> TrainConfig:
    """Raises ConfigError, with a message of one line. `env` is the id of a Gymnasium environment, or a function that
    creates an environment. `values` are other settings by short name (game) or full name, with two underscores for a
    point (evaluation__interval). Whole numbers in `values` may be floats (1e6) or numpy's numbers."""
    config = plain(_base(what))
    if env is not None:
        values = {**values, "env__id": _id_of(env)}
    config = with_chosen(config, values.get("preset"), values.get("cluster"), is_atari="env__id" not in values)
    config = with_values(config, values)
    if not config.env.game and not config.env.id:
        raise ConfigError("the environment is missing: game='pong' for Atari, env='CartPole-v1' for Gymnasium")
    _check_importable(config)
    return config


def plain(value: Any) -> Any:
    """Convert numpy scalars, arrays, ranges and text enumerations, also inside a dataclass, to plain Python values, and
    a user's class to module:Class."""
    if isinstance(value, type):
        return name_of(value, "the class")
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: plain(getattr(value, f.name)) for f in fields(value)})
    if isinstance(value, np.generic | np.ndarray):
        return value.item() if value.shape == () else tuple(value.tolist())
    if isinstance(value, Enum) and isinstance(value, str):
        return value.value
    if isinstance(value, tuple | list | range):
        return tuple(plain(v) for v in value)
    return value


def with_values(config: TrainConfig, values: Mapping[str, Any]) -> TrainConfig:
    """`values` maps short names (game) or full names of settings to their values, as in the function `settings`. Raises
    ConfigError."""
    for name, value in values.items():
        config = _with(config, _full_name(config, name), value)
    return config


def _full_name(config: TrainConfig, name: str) -> str:
    """The full name of a setting, such as env.game for game. For an unknown setting, raises a ConfigError that suggests
    similar names, in the spelling of Python keywords."""
    try:
        return full_name(config, name.replace("__", ".").replace("_", "-"))
    except ConfigError as e:
        text = re.sub(r"--([a-z][\w.-]*)", lambda m: m[1].replace(".", "__").replace("-", "_"), str(e))
        raise ConfigError(text.replace("unknown option", "unknown setting")) from e


def _id_of(env: str | Callable[..., Any]) -> str:
    """Return the id of an environment, or the name of a function that creates one. Raises ConfigError for an object."""
    if isinstance(env, str):
        return env
    if not hasattr(env, "__qualname__"):
        id = getattr(getattr(env, "spec", None), "id", None)
        raise ConfigError(
            f"env is an object of {type(env).__name__}: give its id{f', env={id!r}' if id else ''}, or a function that "
            "makes one; each worker makes its own"
        )
    return name_of(env, "the environment")


def _with(config: TrainConfig, name: str, value: Any) -> TrainConfig:
    if isinstance(value, dict):  # Only the setting env.kwargs is a dict.
        try:
            value = json.dumps(value)
        except TypeError as e:
            raise ConfigError(f"{name}={value!r}: must have values of JSON ({e})") from e
    value = plain(value)
    if name == "distributed.gpus" and isinstance(value, tuple):
        value = ",".join(map(str, value))
    try:
        return with_setting(config, name, value)
    except ConfigError:
        if isinstance(value, float) and value.is_integer():
            return with_setting(config, name, int(value))
        raise


def _base(what: What) -> TrainConfig:
    if isinstance(what, TrainConfig):
        return what
    if isinstance(what, str):
        return default_config(what)
    if isinstance(what, AlgorithmConfig):
        cls = _class_of(what)
        return replace(default_config(_short(name_of(cls, "the algorithm"))), algo=what)
    if isinstance(what, type) and issubclass(what, Algorithm):
        return default_config(_short(name_of(what, "the algorithm")))
    raise ConfigError(
        f"{what!r} is no algorithm: give a name ('ppo', 'my_module:MyPPO'), a class (PPO), its settings "
        "(PPO.Config(...)) or a TrainConfig"
    )


def _class_of(config: AlgorithmConfig) -> type[Algorithm]:
    """The algorithm whose class of settings is the type of `config`. Raises ConfigError unless exactly one algorithm
    has this class of settings."""
    result = [cls for cls in _subclasses(Algorithm) if cls.__dict__.get("Config") is type(config)]
    if len(result) != 1:
        name = type(config).__name__
        raise ConfigError(
            f"{name}: {len(result)} algorithms have these settings; give the class (train(MyAlgorithm, ...)) instead"
        )
    return result[0]


def _subclasses(cls: Any) -> set[Any]:
    return {cls}.union(*map(_subclasses, cls.__subclasses__()))


def name_of(thing: Any, what: str) -> str:
    """The name module:attribute, by which other processes can import a class or a function. Raises ConfigError."""
    module, name = thing.__module__, thing.__qualname__
    if getattr(importlib.import_module(module), name, None) is not thing:
        raise ConfigError(f"{name}: {what} must be defined at the top of a module, not inside a function or class")
    return f"{module}:{name}"


def _short(name: str) -> str:
    return next((short for short, long in ALGORITHMS.items() if long == name), name)


def _check_importable(config: TrainConfig) -> None:
    """Raise ConfigError if other processes would have to import a class that is defined in the user's script or
    notebook."""
    processes = []
    if config.env.id.startswith("__main__:") and (config.sampler.has_workers or config.distributed.several):
        processes.append((config.env.id, "worker processes; or use engine='in-process'"))
    for name in (config.algorithm, getattr(config.algo, "network", "")):
        if name.startswith("__main__:") and not config.mode.is_alone:
            processes.append((name, "the processes of the ranks"))
    for name, others in processes:
        script = getattr(sys.modules["__main__"], "__file__", None) or "this notebook"
        raise ConfigError(
            f"{name.partition(':')[2]} is defined in {script}: put it into a module, my_module.py, and import it from "
            f"there, so that it can be imported by {others}"
        )
