"""Algorithms and experiments by their names."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.imports import failure, import_user_module

if TYPE_CHECKING:
    from accel_rl.algos.algorithm import Algorithm

ALGORITHMS = {
    "a2c": "accel_rl.algos.a2c:A2C",
    "ppo": "accel_rl.algos.ppo:PPO",
    "impala": "accel_rl.algos.impala:IMPALA",
    "pqn": "accel_rl.algos.pqn:PQN",
    "dqn": "accel_rl.algos.dqn:DQN",
    "c51": "accel_rl.algos.c51:C51",
    "qrdqn": "accel_rl.algos.qrdqn:QRDQN",
    "iqn": "accel_rl.algos.iqn:IQN",
    "btr": "accel_rl.algos.btr:BTR",
    "rainbow": "accel_rl.algos.rainbow:Rainbow",
    "r2d2": "accel_rl.algos.r2d2:R2D2",
}
WITH_REPLAY = ("dqn", "c51", "qrdqn", "iqn", "btr", "rainbow", "r2d2")
"""The algorithms with a replay and a target network."""
NAMES_WITH_REPLAY = f"{', '.join(WITH_REPLAY[:-1])} and {WITH_REPLAY[-1]}"
SUITE_PREFIX = "suite/"
"""The trained agents of the project have names suite/ALGORITHM-GAME."""
PAPERS = "accel_rl.papers"
"""The package `PAPERS` contains the papers' experiments: `stooke:figure_3` is defined in accel_rl.papers.stooke."""
PAPER_PREFIXES = ("", "experiments.", f"{PAPERS}.")
"""The module of an experiment is searched in the packages `PAPER_PREFIXES`."""


def find_algorithm(name: str) -> "type[Algorithm]":
    """The algorithm class `name`, such as `a2c` or a user's `module:Class`. The user's module may be in the current
    folder. Raises ConfigError."""
    from accel_rl.algos.algorithm import (
        Algorithm,
    )  # torch is imported here, because most functions of this module do not need it.

    result = find(name)
    if not (isinstance(result, type) and issubclass(result, Algorithm)):
        raise ConfigError(f"algorithm {name!r}: it is not a subclass of accel_rl.algos.algorithm.Algorithm")
    return result


def find(name: str, flag: str = "algorithm") -> Any:
    """Import the object named by `a2c` or `module:attribute`. The module may be a user's module, a user's file
    (`my_grids.py:sizes`), or a paper of accel_rl.papers. Raises a ConfigError that begins with the flag."""
    path = ALGORITHMS.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon and flag == "algorithm":
        allowed = [*ALGORITHMS, "module:Class", "module:function"]
        raise ConfigError(f"unknown algorithm {name!r}; allowed: {', '.join(allowed)}{nearest(name, ALGORITHMS)}")
    if not colon:
        such = (
            ", ".join(experiments(name))
            if name in papers()
            else f"my_module:{name} or stooke:figure_3{nearest(name, papers())}"
        )
        raise ConfigError(f"{flag} {name!r}: must be module:function, such as {such}")
    try:
        module = importlib.import_module(module_name) if name in ALGORITHMS else _user_module_or_paper(module_name)
    except ModuleNotFoundError as e:
        if e.name is not None and (module_name == e.name or module_name.startswith(e.name + ".")):
            where = "; it is a folder of the repository, not of the package" if e.name == "experiments" else ""
            raise ConfigError(
                f"{flag} {name!r}: there is no module {e.name!r} on the path{where or nearest(e.name, papers())}"
            ) from e
        raise ConfigError(f"{flag} {name!r}: it cannot be imported ({failure(e)})") from e
    except Exception as e:  # If the user's file has an error, the message names the file and the line.
        raise ConfigError(f"{flag} {name!r}: it cannot be imported ({failure(e)})") from e
    result = getattr(module, attribute, None)
    if result is None:
        raise ConfigError(f"{flag} {name!r}: {module_name} has no {attribute}{nearest(attribute, dir(module))}")
    return result


def check_call(name: str, function: Callable[..., Any], *args: Any) -> None:
    """Raise ConfigError if the user's function `name` cannot be called with `args`, for example because it was written
    for another command."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError as e:
        raise ConfigError(f"{name}{inspect.signature(function)}: {e}") from e


def papers() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(importlib.import_module(PAPERS).__path__) if m.ispkg)


def experiments(paper: str) -> list[str]:
    """The names of a paper's experiments, such as stooke:figure_3."""
    module = importlib.import_module(f"{PAPERS}.{paper}")
    functions = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__.startswith(module.__name__)]
    return [f"{paper}:{f.__name__}" for f in functions if not f.__name__.startswith("_")]


def _user_module_or_paper(name: str) -> ModuleType:
    """Import a user's module, or a paper of accel_rl.papers if the user has no such module. Raises ImportError."""
    try:
        return import_user_module(name)
    except ModuleNotFoundError as e:
        paper = f"{PAPERS}.{name}"
        if e.name != name or name not in papers():
            raise
    return importlib.import_module(paper)


def experiment_of(paper: str, name: str) -> str:
    """The name of a paper's experiment, such as figure_3 for stooke:figure_3, or "" for experiments of other
    modules."""
    module, _, function = name.partition(":")
    return function if module in [prefix + paper for prefix in PAPER_PREFIXES] else ""
