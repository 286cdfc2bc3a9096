"""Environments for tests: by settings, and with child processes."""

import os
import subprocess
from typing import Any

import gymnasium

from accel_rl.envs.make import EnvConfig, ResolvedEnv, resolve_env


def env_of(**settings: Any) -> ResolvedEnv:
    """Return a resolved environment. settings: fields of `EnvConfig`. ConfigError."""
    return resolve_env(EnvConfig(**settings))


def with_children() -> gymnasium.Env:
    """CartPole that starts a program, forks, and starts a daemon, which sleep for SLEEP_S seconds."""
    sleep = ["sleep", os.environ["SLEEP_S"]]
    subprocess.Popen(sleep)
    if not os.fork():
        if not os.fork():
            os.setsid()
            os.execvp("sleep", sleep)
        os._exit(0)
    return gymnasium.make("CartPole-v1")
