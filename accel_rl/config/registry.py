"""Algorithms by name."""

import importlib
from typing import Any

from accel_rl.algos.algorithm import Algorithm
from accel_rl.system.errors import ConfigError, nearest
from accel_rl.system.user_module import import_user_module

ALGORITHMS = {
    "a2c": "accel_rl.algos.a2c:A2C",
    "ppo": "accel_rl.algos.ppo:PPO",
    "impala": "accel_rl.algos.impala:IMPALA",
    "dqn": "accel_rl.algos.dqn:DQN",
    "c51": "accel_rl.algos.c51:C51",
    "rainbow": "accel_rl.algos.rainbow:Rainbow",
}


def find_algorithm(name: str) -> type[Algorithm]:
    """Return the class of `a2c`, or of a user's `module:Class`; the current folder is searched too. ConfigError."""
    found = find(name)
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise ConfigError(f"algorithm {name!r}: it is not a subclass of accel_rl.algos.algorithm.Algorithm")
    return found


def find(name: str) -> Any:
    """Import what `a2c` or `module:attribute` names; the current folder is searched too. ConfigError."""
    path = ALGORITHMS.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon:
        known = [*ALGORITHMS, "module:Class", "module:function"]
        raise ConfigError(f"unknown algorithm {name!r}; allowed: {', '.join(known)}{nearest(name, ALGORITHMS)}")
    try:
        module = importlib.import_module(module_name) if name in ALGORITHMS else import_user_module(module_name)
    except ModuleNotFoundError as e:
        if e.name is not None and (module_name == e.name or module_name.startswith(e.name + ".")):
            raise ConfigError(f"algorithm {name!r}: there is no module {e.name!r} on the path") from e
        raise ConfigError(f"algorithm {name!r}: it cannot be imported ({' '.join(str(e).split())})") from e
    found = getattr(module, attribute, None)
    if found is None:
        raise ConfigError(f"algorithm {name!r}: {module_name} has no {attribute}{nearest(attribute, dir(module))}")
    return found
