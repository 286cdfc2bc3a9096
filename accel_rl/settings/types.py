"""Values of settings are checked against the types that their classes declare."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from accel_rl.machine.machine import numbers
from accel_rl.text.bounds import bounds_of
from accel_rl.text.counts import parse_count
from accel_rl.text.errors import ConfigError, nearest

LARGEST = 10**15
"""Larger numbers are rejected as mistakes, such as infinity or a count that no run reaches. Only a seed may be larger
than LARGEST."""
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
BOOLS = {"True": True, "False": False}
PARSERS: dict[Any, Callable[[str], Any]] = {int: parse_count, float: float, bool: BOOLS.__getitem__}
_hints = cache(get_type_hints)  # The result is cached, because a sweep checks the same few classes thousands of times.


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a dataclass of settings or of one of its groups. `name` is its full name, such as env.game."""

    name: str
    hint: Any
    value: Any
    field: Field[Any]
    owner: type

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def is_repeated(self) -> bool:
        return "appended" in self.field.metadata

    @property
    def takes_many(self) -> bool:
        return not self.is_repeated and any(get_origin(hint) is tuple for hint in (self.hint, *get_args(self.hint)))

    def check(self, value: Any) -> None:
        """Raise ConfigError for a value of another type, or a number that is out of bounds."""
        if not fits(self.hint, value):
            raise ConfigError(f"{self.flag} {refusal(self.hint, value)}")
        if isinstance(value, int | float):
            _check_size(self.flag, value)
            if (bound := bounds_of(self.owner)[self.field.name]) and not bound.holds(value):
                raise ConfigError(f"{self.flag} {value}: must be {bound.allowed}")

    def read(self, words: Sequence[str]) -> Any:
        """Parse the value from words of a command line. Raises ConfigError."""
        self.check(value := read(self.hint, words))
        return (*self.value, *value) if self.is_repeated else value


def settings_in(config: Any, prefix: str = "") -> Iterator[Setting]:
    """Yield the settings of a dataclass, and then the settings of its groups."""
    for f in sorted(fields(config), key=lambda f: _is_group(getattr(config, f.name))):
        value = getattr(config, f.name)
        if _is_group(value):
            yield from settings_in(value, f"{prefix}{f.name}.")
        else:
            yield Setting(prefix + f.name, _hints(type(config))[f.name], value, f, type(config))  # type: ignore[arg-type]


def values_in(config: Any, prefix: str = "") -> dict[str, Any]:
    """{full name, such as env.game: value} of all settings, including those in groups."""
    return {setting.name: setting.value for setting in settings_in(config, prefix)}


def _is_group(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def options_in(config: Any) -> dict[str, Setting]:
    """{command-line flag: setting}"""
    return {s.flag: s for s in settings_in(config) if "hidden" not in s.field.metadata}


def check_types(config: Any, prefix: str = "") -> None:
    """Raise ConfigError for the first setting of a wrong type, or with a number that is out of bounds. `prefix` is
    prepended to the names of the settings in `config`."""
    for setting in settings_in(config, prefix):
        setting.check(setting.value)


def refusal(hint: Any, value: Any) -> str:
    """The text of an error: the given value, the allowed values, and the most similar names."""
    got = " ".join(map(repr, value)) if isinstance(value, tuple | list) else repr(value)
    allowed = described(hint)
    names = allowed.removeprefix("one of ").split(", ") if allowed.startswith("one of ") else ()
    return f"{got}: must be {allowed}{nearest(str(value), names)}"


def _check_size(flag: str, value: float) -> None:
    most = MOST.get(flag, LARGEST)
    if not abs(value) <= most:  # The comparison is negated so that NaN is rejected.
        raise ConfigError(f"{flag} {_exact(value)}: must be a number of at most {_exact(most)}")
    least, longest = TIMEOUTS_S
    if flag.endswith("timeout-s") and not least <= value <= longest:
        raise ConfigError(f"{flag} {value:g}: must be {least:g} to {longest:g} seconds")


def _exact(value: float) -> str:
    """A number in short form, such as 1e+18, or with all digits if the short form would be a different number."""
    if isinstance(value, int) and (abs(value) > 1e300 or int(float(f"{value:.15g}")) != value):
        return str(value)
    return f"{value:.15g}"


def fits(hint: Any, value: Any) -> bool:
    """Whether a value has the type `hint`. Whole numbers are accepted as floats, and booleans are not accepted as
    numbers."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return any(value == allowed and type(value) is type(allowed) for allowed in args)
    if origin is tuple:
        return isinstance(value, tuple | list) and all(fits(args[0], v) for v in value)
    if args and origin is not None:
        return any(fits(a, value) for a in args)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def read(hint: Any, words: Sequence[str]) -> Any:
    """Parse a value of the type `hint` from words of a command line. Words that cannot be parsed are returned
    unchanged, so `fits` rejects them."""
    origin, args = get_origin(hint), get_args(hint)
    text: Any = words[0] if len(words) == 1 else tuple(words)
    if text == "None" and NoneType in args:
        return None
    if origin is tuple and args[0] is int:
        with contextlib.suppress(ConfigError):
            return tuple(number for word in words for number in numbers(word))
    if origin is tuple:  # Lists of numbers may be separated by commas, but texts may contain commas.
        parts = words if args[0] is str else [part for word in words for part in word.split(",")]
        return tuple(read(args[0], [part]) for part in parts)
    if origin is Literal:
        return next((value for value in args if str(value) == text), text)
    if args and origin is not None:
        return next((value for value in (read(a, words) for a in args) if fits(hint, value)), text)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return PARSERS[hint](text)
    return text


def described(hint: Any) -> str:
    """A type described in words, such as "a whole number or None"."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(str(a) for a in args if a != '')}" if len(args) > 1 else str(args[0])
    if origin is tuple:
        return "a list such as 0-3,8" if args[0] is int else f"a list, each {described(args[0])}"
    if args and origin is not None:
        return " or ".join(map(described, args))
    words = {int: "a whole number", float: "a number", bool: "True or False", str: "a text", NoneType: "None"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))
