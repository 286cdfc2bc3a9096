"""CartPole with a fault in one step, which environment variables select."""

import os
import signal
import sys
import time
from typing import Any

import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv


class FaultyCartPole(CartPoleEnv):
    """CartPole with the fault CHAOS_FAULT in step CHAOS_STEP of each environment. If CHAOS_ONCE names a file, the first
    environment with a fault creates the file, and other environments have no fault."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.count == int(os.environ["CHAOS_STEP"]) and self._first():
            fail(os.environ["CHAOS_FAULT"])
        return super().step(action)

    def _first(self) -> bool:
        if not (once := os.environ["CHAOS_ONCE"]):
            return True
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def fail(fault: str) -> None:

    match fault:
        case "exit":
            sys.exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "raise":
            raise ValueError("a fault of the environment")
        case "block":
            time.sleep(3_600)
        case "interrupt":
            raise KeyboardInterrupt
        case "close":
            os.closerange(3, 256)


def make() -> gym.Env:
    """Return the environment with the time limit of CartPole-v1."""
    return gym.wrappers.TimeLimit(FaultyCartPole(), 500)
