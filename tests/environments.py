"""Slow and failing environments, and environments with child processes.

This module does not import torch, so that each worker process starts two seconds faster.
"""

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import numpy as np


def with_children() -> gymnasium.Env:
    """CartPole whose process starts a program, a forked process and a daemon, which sleep for SLEEP_S seconds."""
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


class AtStep(gymnasium.Wrapper):
    """CartPole that calls `event` before its step number `at`, or before each step if `at` is None."""

    def __init__(self, event: Callable[[], Any], at: int | None = None) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.event, self.at, self.steps = event, at, 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.at in (None, self.steps):
            self.event()
        return super().step(action)


def failing() -> gymnasium.Env:
    def fault() -> None:
        raise ValueError("this environment fails at step 3")

    return AtStep(fault, 3)


def interrupting() -> gymnasium.Env:
    def fault() -> None:
        raise KeyboardInterrupt("of the environment")

    return AtStep(fault, 3)


def forking() -> gymnasium.Env:
    def fault() -> None:
        if not os.fork():
            time.sleep(600)
        die(9)

    return AtStep(fault, 3)


def die(code: int) -> None:
    """End the process without Python, as a crash of compiled code does. Worker processes refuse Python's os._exit."""
    ctypes.CDLL(None)._exit(code)


def dying() -> gymnasium.Env:
    return AtStep(lambda: die(7), 3)


def ending(call: str = "sys.exit", code: Any = 0) -> gymnasium.Env:
    """CartPole that calls sys.exit or os._exit at step 3."""
    return AtStep(lambda: {"sys.exit": sys.exit, "os._exit": os._exit}[call](code), 3)


def of_wrong_shape() -> gymnasium.Env:
    return gymnasium.wrappers.TransformObservation(gymnasium.make("CartPole-v1"), lambda observation: [0.0], None)


def slow() -> gymnasium.Env:
    return AtStep(lambda: time.sleep(0.1))


def takes_a_millisecond() -> gymnasium.Env:
    return AtStep(lambda: time.sleep(1e-3))


def without_a_reward() -> gymnasium.Env:
    return gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: np.nan)


def slow_on_one_core() -> gymnasium.Env:
    """CartPole whose steps are slow if the process is pinned to the core SLOW_CORE."""
    core = int(os.environ["SLOW_CORE"])
    return AtStep(lambda: time.sleep(0.15) if os.sched_getaffinity(0) == {core} else None)


def blocks_at_reset() -> gymnasium.Env:
    env = gymnasium.make("CartPole-v1")
    env.reset = lambda **_: time.sleep(600)  # type: ignore[method-assign]
    return env


def blocks_at_close_in_a_worker() -> gymnasium.Env:
    env = gymnasium.make("CartPole-v1")
    if "worker" in sys.argv[0]:
        env.close = lambda: time.sleep(600)  # type: ignore[method-assign]
    return env


class Careless(gymnasium.Env):
    """An environment that draws from the global random generators of numpy and Python at every call."""

    observation_space = gymnasium.spaces.Box(-9, 9, (5,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self._made = np.random.rand()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._left = random.randint(3, 9)
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        self._left -= 1
        return self._observation(), np.random.rand(), self._left == 0, False, {}

    def _observation(self) -> np.ndarray:
        return np.array([self._made, np.random.rand(), np.random.randn(), random.random(), random.gauss(0, 1)])


class Numbered(gymnasium.Env):
    """An environment whose observation is (index in the run, whether it is for training, its argument `level`)."""

    observation_space = gymnasium.spaces.Box(-1, 99, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, index: int, training: bool, level: int) -> None:
        self._seen = np.array([index, training, level], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._seen, {}

    def step(self, action: Any) -> Any:
        return self._seen, 1.0, False, False, {}


def numbered(index: int, training: bool, level: int = 3) -> gymnasium.Env:
    return Numbered(index, training, level)


class Shown(gymnasium.Env):
    """An environment with episodes of 3 steps. The colour of rendered pictures depends on the step."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(3, np.float32), 1.0, self.t == 3, False, {}

    def render(self):
        return np.full((20, 30, 3), 10 * self.t, np.uint8)


class Pictures(Shown):
    """An environment that cannot be rendered, but whose observations are pictures."""

    observation_space = gymnasium.spaces.Box(0, 255, (40, 40, 3), np.uint8)

    def __init__(self) -> None:
        super().__init__()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full((40, 40, 3), (1, 2, 3), np.uint8), {}

    def step(self, action):
        return np.full((40, 40, 3), (1, 2, 3), np.uint8), *super().step(action)[1:]


def blind() -> gymnasium.Env:
    return Shown()
