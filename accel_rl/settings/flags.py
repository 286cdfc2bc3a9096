"""The flags of the command line are names of settings, full (--env.game) or short (--game)."""

import dataclasses
import typing
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast, get_type_hints

from accel_rl.settings.hints import hint
from accel_rl.settings.registry import ALGORITHMS, find_algorithm
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.types import described, fits
from accel_rl.text.errors import ConfigError, nearest


def flags_of(cls: Any, default: Any = None, prefix: str = "--") -> dict[str, str]:
    """Map every flag of a nested dataclass of settings to its short name, such as '--sampler.reset' to 'reset'."""
    result: dict[str, str] = {}
    hints = typing.get_type_hints(cls)
    for f in dataclasses.fields(cls):
        name = f.name.replace("_", "-")
        value = getattr(default, f.name, None)
        inner = type(value) if dataclasses.is_dataclass(value) else hints[f.name]
        if dataclasses.is_dataclass(inner):
            result |= flags_of(inner, value, f"{prefix}{name}.")
        else:
            result[prefix + name] = name
    return result


def complete(argv: list[str], flags: dict[str, str], similar: Iterable[str] = ()) -> list[str]:
    """Expand short flags: `--game` becomes `--env.game` if only one group has a field of that name. Raises ConfigError
    for an unknown flag. The error message suggests flags with similar names, including those in `similar`. For a flag
    of another library, the message suggests the corresponding flag of this project."""
    by_name: dict[str, list[str]] = {}  # Names include those of nested settings, such as replay.size.
    for flag in flags:
        parts = flag[2:].split(".")
        for i in range(len(parts)):
            by_name.setdefault(".".join(parts[i:]), []).append(flag)
    allowed = dict.fromkeys([*flags, *(f"--{n}" for n in by_name)])
    done = []
    for arg in argv:
        if not arg.startswith("--") or arg == "--help":
            done.append(arg)
            continue
        flag, equals, value = arg.partition("=")
        flag = flag.replace("_", "-")
        group, _, last = flag.rpartition(".")
        if last.removeprefix("--").startswith("no-"):
            positive = f"{group}.{last[3:]}" if group else "--" + last[5:]
        else:
            positive = flag
        if positive in flags:
            done.append(flag + equals + value)
            continue
        candidates = by_name.get(positive[2:], [])
        if len(candidates) == 1:
            full, negated = candidates[0], positive != flag
            if negated:
                head, _, tail = full.rpartition(".")
                full = f"{head}.no-{tail}" if head else f"--no-{tail[2:]}"
            done.append(full + equals + value)
        elif candidates:
            raise ConfigError(f"{flag} is ambiguous; allowed: {', '.join(candidates)}")
        elif instead := hint(positive[2:], flags, by_name):
            raise ConfigError(f"unknown option {flag}: {instead}")
        else:
            is_here = any(name.replace(".", "-") == positive for name in allowed)
            others = _algorithms_with(positive[2:]) if "--sampler.envs" in flags and not is_here else ""
            raise ConfigError(f"unknown option {flag}{others or nearest(flag, [*allowed, *similar]) or '; see --help'}")
    return done


def _algorithms_with(name: str) -> str:
    """Return a text that lists the algorithms that have a setting which the chosen algorithm lacks, or "" if no
    algorithm has the setting."""
    field = name.removeprefix("algo.").replace(".", "-")  # --replay-size means --replay.size.
    names = [n for n in ALGORITHMS if field in {f[2:].replace(".", "-") for f in flags_of(find_algorithm(n).Config)}]
    return (
        f": this algorithm has no such setting; {', '.join(names)} {'have' if names[1:] else 'has'} it" if names else ""
    )


def full_name(config: TrainConfig, name: str) -> str:
    """Return a setting's full name, such as env.game for game. For an unknown setting, raises a ConfigError that
    suggests similar names."""
    flags = flags_of(TrainConfig, config)
    del flags["--algorithm"]  # The setting `algorithm` cannot be changed.
    return complete(["--" + name], flags)[0][2:].replace("-", "_")


def with_setting(config: TrainConfig, name: str, value: Any) -> TrainConfig:
    """Return a copy of the configuration in which one setting is changed. `name` is a full name, such as env.game.
    Raises ConfigError for a value of a wrong type."""
    return cast(TrainConfig, _with(config, name, name.split("."), value))


def _with(part: Any, name: str, path: list[str], value: Any) -> Any:
    first, *rest = path
    if rest:
        return replace(part, **{first: _with(getattr(part, first), name, rest, value)})
    hint = get_type_hints(type(part))[first]
    if not fits(hint, value):
        raise ConfigError(f"{name}={value!r}: must be {described(hint)}")
    return replace(part, **{first: tuple(value) if isinstance(value, list) else value})
