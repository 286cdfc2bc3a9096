"""Flattens nested settings, such as those of config.json, so that each setting has a full name."""

from collections.abc import Iterable, Mapping
from typing import Any


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield (full name, value) of each setting, such as (env.game, pong)."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
