"""Determines which settings an algorithm reads from the code of its methods, before it runs."""

import sys
from collections.abc import Iterator
from dataclasses import fields
from inspect import unwrap
from types import CodeType, FunctionType
from typing import Any

from accel_rl.algos.algorithm import Algorithm, AlgorithmConfig
from accel_rl.algos.replay_algorithm import ReplayAlgorithm

# A run calls all methods of the classes INTERFACE, and the members OF_SETTINGS of the algorithm's settings.
INTERFACE = (Algorithm, ReplayAlgorithm)
OF_SETTINGS = ("max_grad_norm", "horizon", "optimizer")
# A function that uses one of these names may read any setting.
READ_ALL = {"getattr", "vars", "asdict", "astuple", "fields", "replace", "__dict__"}


def unread(algorithm: type[Algorithm]) -> set[str]:
    """Settings that the algorithm does not read. Only methods that a run calls, directly or through other methods, are
    searched. If a method of a user's class may read any setting, the result is empty."""
    classes = [c for c in (*algorithm.__mro__, *algorithm.Config.__mro__) if c is not object]
    modules = {c.__module__ for c in classes}
    waiting = [name for c in INTERFACE if issubclass(algorithm, c) for name in vars(c)] + list(OF_SETTINGS)
    names: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in names:
            continue
        names.add(name)
        for function in _implementations(classes, name) or _functions(modules, name):
            read = _names(function.__code__)
            if read & READ_ALL and not function.__module__.startswith("accel_rl."):
                return set()
            waiting += read
    return {f.name for f in fields(algorithm.Config)} - names


def _implementations(classes: list[type], name: str) -> list[FunctionType]:
    """The functions that a call of the method or property `name` may run: that of the first of the classes that defines
    `name`, and those that it calls through `super`."""
    result = []
    for function in (f for c in classes for f in _of(vars(c).get(name))):
        result.append(function)
        if "super" not in function.__code__.co_names:
            break
    return result


def _functions(modules: set[str], name: str) -> list[FunctionType]:
    """The function `name`, or the methods of the class `name`, that one of the modules defines."""
    values = [vars(sys.modules[m]).get(name) for m in modules if m in sys.modules]
    parts = (Algorithm, AlgorithmConfig)
    defined = [v for v in values if getattr(v, "__module__", "") in modules]
    defined = [v for v in defined if not (isinstance(v, type) and issubclass(v, parts))]
    return [f for v in defined for member in (vars(v).values() if isinstance(v, type) else [v]) for f in _of(member)]


def _of(member: Any) -> Iterator[FunctionType]:
    if isinstance(member, property):
        member = member.fget
    member = unwrap(getattr(member, "__func__", member)) if member is not None else None
    if isinstance(member, FunctionType):
        yield member


def _names(code: CodeType) -> set[str]:
    inner = [_names(c) for c in code.co_consts if isinstance(c, CodeType)]
    return {*code.co_names, *code.co_freevars}.union(*inner)
