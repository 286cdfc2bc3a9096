"""Change a setting of a run by its name."""

from dataclasses import replace
from typing import Any, cast, get_type_hints

from accel_rl.config.flags import complete, flags_of
from accel_rl.config.train import TrainConfig
from accel_rl.config.types import described, fits
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
    if not fits(hint, value):
        raise ConfigError(f"{name}={value!r}: must be {described(hint)}")
    return replace(part, **{first: tuple(value) if isinstance(value, list) else value})
