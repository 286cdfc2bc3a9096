"""Change a setting of a run by its name."""

from dataclasses import replace
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from accel_rl.config.flags import complete, flags_of
from accel_rl.config.train import TrainConfig
from accel_rl.system.errors import ConfigError


def full_name(config: TrainConfig, name: str) -> str:
    """Return a setting's full name: game -> env.game. ConfigError, with similar names, for an unknown setting."""
    flags = flags_of(TrainConfig, config)
    del flags["--algorithm"]  # another algorithm has other settings
    return complete(["--" + name], flags)[0][2:].replace("-", "_")


def with_setting(config: TrainConfig, name: str, value: Any) -> TrainConfig:
    """Return the configuration with one setting changed. name: full, env.game. ConfigError for a wrong type."""
    return cast(TrainConfig, _with(config, name, name.split("."), value))


def _with(part: Any, name: str, path: list[str], value: Any) -> Any:
    first, *rest = path
    if rest:
        return replace(part, **{first: _with(getattr(part, first), name, rest, value)})
    hint = get_type_hints(type(part))[first]
    if not _fits(hint, value):
        allowed = getattr(hint, "__name__", str(hint).replace("typing.", ""))
        raise ConfigError(f"{name}={value!r}: must be {allowed}")
    return replace(part, **{first: tuple(value) if isinstance(value, list) else value})


def _fits(hint: Any, value: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in args
    if origin is tuple:
        return isinstance(value, tuple | list) and all(_fits(args[0], v) for v in value)
    if args and origin is not None:  # a union
        return any(_fits(a, value) for a in args)
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True
