"""Environments for tests: by settings, with child processes, and with factories that fail."""

import os
import signal
import subprocess
import time
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


def blocks() -> gymnasium.Env:
    time.sleep(600)
    raise AssertionError


def crashes() -> gymnasium.Env:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def exits() -> gymnasium.Env:
    os._exit(0)


def raises() -> gymnasium.Env:
    raise OSError("no server\nanswers")


class BlocksAtClose(gymnasium.Wrapper):
    def close(self) -> None:
        time.sleep(600)


def blocks_at_close() -> gymnasium.Env:
    print("made")
    return BlocksAtClose(gymnasium.make("CartPole-v1"))
