"""Environments by their settings. The module needs no Gymnasium."""

from typing import Any

from accel_rl.envs.make import EnvConfig, ResolvedEnv, resolve_env


def env_of(**settings: Any) -> ResolvedEnv:
    """Return a resolved environment. settings: fields of `EnvConfig`. ConfigError."""
    return resolve_env(EnvConfig(**settings))
