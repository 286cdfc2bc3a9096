"""The flags of the command line are names of settings, full (--env.game) or short (--game)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from accel_rl.settings.hints import hint, named
from accel_rl.settings.registry import ALGORITHMS, find_algorithm
from accel_rl.settings.types import fits, options_in, refusal, settings_in
from accel_rl.text.errors import ConfigError, nearest

C = TypeVar("C", bound=Any)


def flags_of(cls: Any, default: Any = None) -> dict[str, str]:
    """{flag: short name}, such as '--sampler.reset': 'reset'. The groups of `default` determine which flags exist."""
    return {flag: flag[2:].rpartition(".")[2] for flag in options_in(cls() if default is None else default)}


def full_flag(flag: str, flags: Collection[str], similar: Iterable[str] = ()) -> str:
    """The full name of a flag: --env.game for --game, if only one group has a field `game`. Raises ConfigError for an
    unknown flag. The error message suggests flags with similar names, including those in `similar`. For a flag of
    another library, the message suggests the corresponding flag of this project."""
    if flag == "--env" and "--env.id" in flags:
        return "--env.id"
    candidates = [flag] if flag in flags else named(flag[2:], flags)
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise ConfigError(f"{flag} is ambiguous; allowed: {', '.join(candidates)}")
    if answer := hint(flag[2:], flags):
        raise ConfigError(f"unknown option {flag}: {answer}")
    parts = [name[2:].split(".") for name in flags]
    allowed = [*flags, *("--" + ".".join(names[i:]) for names in parts for i in range(1, len(names)))]
    is_here = any(name.replace(".", "-") == flag for name in allowed)
    others = _algorithms_with(flag[2:]) if "--sampler.envs" in flags and not is_here else ""
    raise ConfigError(f"unknown option {flag}{others or nearest(flag, [*allowed, *similar]) or '; see --help'}")


def _algorithms_with(name: str) -> str:
    """A text with the algorithms that have a setting which the chosen algorithm lacks, or "" if no algorithm has this
    setting."""
    field = name.removeprefix("algo.").replace(".", "-")  # --replay-size means --replay.size.
    names = [n for n in ALGORITHMS if field in {f[2:].replace(".", "-") for f in flags_of(find_algorithm(n).Config)}]
    have = "have" if names[1:] else "has"
    return f": this algorithm has no such setting; {', '.join(names)} {have} it" if names else ""


def full_name(config: Any, name: str) -> str:
    """The full name of a setting, such as env.game for game. Raises a ConfigError that suggests similar names."""
    return full_flag("--" + name.replace("_", "-"), options_in(config))[2:].replace("-", "_")


def replaced(config: C, values: Mapping[str, Any]) -> C:
    """The settings with new values. `values` maps full names, such as env.game, to values."""
    groups: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        first, _, rest = name.partition(".")
        groups.setdefault(first, {})[rest] = value
    parts = {k: v[""] if "" in v else replaced(getattr(config, k), v) for k, v in groups.items()}
    return replace(config, **parts)


def with_setting(config: C, name: str, value: Any) -> C:
    """The settings with a new value of the setting `name`, a full name such as env.game. Raises ConfigError for a value
    of a wrong type."""
    hint = next(s.hint for s in settings_in(config) if s.name == name)
    if not fits(hint, value):
        raise ConfigError(f"{name}={refusal(hint, value)}")
    return replaced(config, {name: tuple(value) if isinstance(value, list) else value})
