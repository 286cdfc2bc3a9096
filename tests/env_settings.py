"""Resolved environments for tests. The module does not import Gymnasium."""

from typing import Any

from accel_rl.envs.make import EnvConfig, ResolvedEnv, resolve_env


def env_of(**settings: Any) -> ResolvedEnv:
    """Return the resolved environment of an `EnvConfig` with the given fields. Raises ConfigError."""
    return resolve_env(EnvConfig(**settings))
