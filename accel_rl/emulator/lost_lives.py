"""LostLives: a lost life ends an episode while the game goes on, for scripts that are written for that."""

import numpy as np

from accel_rl.emulator.vector_env import FIRE, VectorEnv


class LostLives:
    """The lives of each environment of a VectorEnv that ends episodes with games alone.

    count: False: no lost life counts. press_fire: the step after a lost life presses FIRE instead of the agent's
    action, where the game has it.
    """

    def __init__(self, envs: VectorEnv, count: bool, press_fire: bool) -> None:
        self._count = count
        codes = envs.action_codes
        self._fire = codes.index(FIRE) if press_fire and FIRE in codes else None
        self._lives = np.zeros(envs.num_envs, np.int32)
        self._lost = np.zeros(envs.num_envs, bool)

    def actions(self, actions: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the actions [batch] to play for environments `ids`."""
        return actions if self._fire is None else np.where(self._lost[ids], self._fire, actions)

    def step(self, lives: np.ndarray, ids: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Return which environments lost a life, bool [batch]. ended: a game ended or began, which loses none."""
        lost: np.ndarray = (lives < self._lives[ids]) & ~ended & self._count
        self._lives[ids], self._lost[ids] = lives, lost
        return lost
