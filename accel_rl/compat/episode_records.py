"""This module computes statistics of episodes that older environment interfaces report: sums of rewards, lengths, and
lost lives."""

import numpy as np

from accel_rl.emulator.vector_env import FIRE, VectorEnv


class EpisodeSums:
    """`EpisodeSums` sums the rewards and the lengths of episodes in `n` environments."""

    def __init__(self, n: int) -> None:
        self._points, self._steps = np.zeros(n), np.zeros(n, np.int64)

    def reset(self) -> None:
        self._points[:] = self._steps[:] = 0

    def add(self, points: np.ndarray) -> None:
        """Add the points [n] that the agents of n games won in a step."""
        self._points += points
        self._steps += 1

    def end(self, i: np.integer) -> dict[str, float | int]:
        """Return the sum of points `r` and the length `l` of an environment's episode, and begin its next episode."""
        sums = {"r": float(self._points[i]), "l": int(self._steps[i])}
        self._points[i] = self._steps[i] = 0
        return sums


class LostLives:
    """`LostLives` detects lost lives in a VectorEnv in which an episode is a whole game. If `count` is False, no lost
    life is detected. If `press_fire` is true and the game has the action FIRE, FIRE replaces the agent's action after a
    lost life."""

    def __init__(self, envs: VectorEnv, count: bool, press_fire: bool) -> None:
        self._count = count
        codes = envs.action_codes
        self._fire = codes.index(FIRE) if press_fire and FIRE in codes else None
        self._lives = np.zeros(envs.num_envs, np.int32)
        self._lost = np.zeros(envs.num_envs, bool)

    def actions(self, actions: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the actions [batch] to play in the environments `ids`, with FIRE after a lost life."""
        return actions if self._fire is None else np.where(self._lost[ids], self._fire, actions)

    def step(self, lives: np.ndarray, ids: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Return which environments lost a life, bool [batch]. `ended` marks environments whose game ended or began."""
        lost: np.ndarray = (lives < self._lives[ids]) & ~ended & self._count
        self._lives[ids], self._lost[ids] = lives, lost
        return lost
