"""Values of settings are checked against the types that their classes declare."""

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from accel_rl.text.bounds import bounds_of
from accel_rl.text.errors import ConfigError

LARGEST = 10**15
"""Larger numbers are mistakes, such as infinity, or a count that no run reaches. Only a seed may be larger."""
MOST = {
    "--seed": 2**63 - 1,
    "--torch-threads": 1_024,
    "--sampler.envs": 1_000_000,
    "--sampler.workers": 4_096,
    "--sampler.decorrelation-steps": 1_000_000,
    "--evaluation.parallel": 65_536,
    "--log.window": 1_000_000,
    "--distributed.ranks": 4_096,
    "--distributed.chunks": 65_536,
}
"""Largest values of settings that determine the number of processes, threads or objects of a run."""
TIMEOUTS_S = (0.1, 1e6)
"""The shortest and the longest timeout in seconds. The longest is about 12 days."""


_hints = cache(get_type_hints)  # The result is cached, because a sweep checks the same few classes thousands of times.


def check_types(config: Any, prefix: str = "--") -> None:
    """Raise ConfigError for the first setting of a wrong type, or with a number that is out of bounds. `config` is a
    dataclass of settings, or of groups of settings."""
    cls: Any = type(config)
    hints, bounds = _hints(cls), bounds_of(cls)
    for f in fields(config):
        value, flag = getattr(config, f.name), prefix + f.name.replace("_", "-")
        if is_dataclass(value) and not isinstance(value, type):
            check_types(value, f"{flag}.")
        elif not fits(hints[f.name], value):
            raise ConfigError(f"{flag} {value!r}: must be {described(hints[f.name])}")
        elif isinstance(value, int | float):
            _check_size(flag, value)
            if (bound := bounds[f.name]) and not bound.holds(value):
                raise ConfigError(f"{flag} {value}: must be {bound.allowed}")


def _check_size(flag: str, value: float) -> None:
    most = MOST.get(flag, LARGEST)
    if not abs(value) <= most:  # The comparison is negated so that NaN is rejected.
        raise ConfigError(f"{flag} {_exact(value)}: must be a number of at most {_exact(most)}")
    least, longest = TIMEOUTS_S
    if flag.endswith("timeout-s") and not least <= value <= longest:
        raise ConfigError(f"{flag} {value:g}: must be {least:g} to {longest:g} seconds")


def _exact(value: float) -> str:
    """Format a number in its short form, such as 1e+18, or with all digits if the short form is another number."""
    if isinstance(value, int) and (abs(value) > 1e300 or int(float(f"{value:.15g}")) != value):
        return str(value)
    return f"{value:.15g}"


def plain(value: Any) -> Any:
    """Convert numpy scalars, arrays, ranges and text enumerations, also inside a dataclass, to plain Python values."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: plain(getattr(value, f.name)) for f in fields(value)})
    if isinstance(value, np.generic | np.ndarray):
        return value.item() if value.shape == () else tuple(value.tolist())
    if isinstance(value, Enum) and isinstance(value, str):
        return value.value
    if isinstance(value, tuple | list | range):
        return tuple(plain(v) for v in value)
    return value


def fits(hint: Any, value: Any) -> bool:
    """Return whether a setting's value has the given type. Whole numbers are accepted as floats, and booleans are not
    accepted as numbers."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return any(value == allowed and type(value) is type(allowed) for allowed in args)
    if origin is tuple:
        return isinstance(value, tuple | list) and all(fits(args[0], v) for v in value)
    if args and origin is not None:
        return any(fits(a, value) for a in args)
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def described(hint: Any) -> str:
    """Describe a type in words, such as "a whole number or None"."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(str(a) for a in args if a != '')}" if len(args) > 1 else str(args[0])
    if origin is tuple:
        return f"a list, each {described(args[0])}"
    if args and origin is not None:
        return " or ".join(map(described, args))
    words = {int: "a whole number", float: "a number", bool: "True or False", str: "a text", NoneType: "None"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))
