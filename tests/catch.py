"""Catch, as in bsuite (Osband et al. 2020): a ball falls, and the paddle at the bottom must catch it. Pixels.

`accel-rl train dqn --env tests.catch:make`
"""

from typing import Any

import gymnasium
import numpy as np

ROWS, COLUMNS, PIXEL = 10, 5, 4


class Catch(gymnasium.Env[np.ndarray, int]):
    """Actions left, stay, right; after nine steps +1 if the ball is caught, else -1. Observation uint8 [40, 20]."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (ROWS * PIXEL, COLUMNS * PIXEL), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(3)
        self._ball, self._paddle = [0, 0], 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._ball, self._paddle = [0, int(self.np_random.integers(COLUMNS))], COLUMNS // 2
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._paddle = min(max(self._paddle + action - 1, 0), COLUMNS - 1)
        self._ball[0] += 1
        over = self._ball[0] == ROWS - 1
        reward = (1.0 if self._ball[1] == self._paddle else -1.0) if over else 0.0
        return self._observation(), reward, over, False, {}

    def _observation(self) -> np.ndarray:
        board = np.zeros((ROWS, COLUMNS), np.uint8)
        board[ROWS - 1, self._paddle] = 128
        board[self._ball[0], self._ball[1]] = 255
        return board.repeat(PIXEL, 0).repeat(PIXEL, 1)


def make() -> Catch:
    return Catch()
