"""`SingleEnv` is a single Atari game as a Gymnasium environment."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from accel_rl.emulator.vector_env import VectorEnv


class SingleEnv(gymnasium.Env[np.ndarray, int]):
    """`SingleEnv` is a `VectorEnv` of one game, with the same arguments, rewards and episodes. Observations are
    [stack_num, 84, 84] uint8."""

    def __init__(self, game: str, render_mode: None = None, **options: Any):
        """`options` are options of `VectorEnv`. Raises ConfigError."""
        self._envs = VectorEnv(game, 1, autoreset_mode=AutoresetMode.DISABLED, num_threads=1, **options)
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode. The seed determines all later random numbers."""
        super().reset(seed=seed)
        obs, info = self._envs.reset(seed=seed)
        return obs[0], _of_one(info)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self._envs.step(np.array([action]))
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), _of_one(info)

    def close(self) -> None:
        self._envs.close()


def _of_one(info: dict[str, Any]) -> dict[str, Any]:
    return {name: int(info[name][0]) for name in ("lives", "frame_number", "episode_frame_number")}
