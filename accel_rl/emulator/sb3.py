"""This module gives VectorEnv the interface of Stable-Baselines3's vector environments.

    model = PPO("CnnPolicy", SB3VecEnv(VectorEnv("pong", 8, autoreset_mode="SameStep")), n_steps=128)

The example builds PPO on eight emulated games.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env.base_vec_env import VecEnv

from accel_rl.emulator.episode_records import EpisodeSums
from accel_rl.emulator.vector_env import VectorEnv
from accel_rl.system.errors import ConfigError


class SB3VecEnv(VecEnv):  # type: ignore[misc]  # the package may be missing
    """`SB3VecEnv` is a VectorEnv in SAME_STEP mode with the interface of SB3's VecEnv. The infos have
    `terminal_observation`, `TimeLimit.truncated` and `episode` (`r` the sum of rewards, `l` the number of steps), as in
    SB3's VecMonitor. Raises ConfigError."""

    def __init__(self, envs: VectorEnv, seed: int | None = None) -> None:
        if envs.autoreset_mode is not AutoresetMode.SAME_STEP or envs.batch_size != envs.num_envs:
            raise ConfigError("Stable-Baselines3 wants autoreset_mode='SameStep' and all environments in a batch")
        self.envs = envs
        self.render_mode = None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self._seed = seed
        self._sums = EpisodeSums(envs.num_envs)

    def seed(self, seed: int | None = None) -> list[int | None]:
        self._seed = seed
        return [None if seed is None else seed + i for i in range(self.num_envs)]

    def reset(self) -> np.ndarray:
        obs, _ = self.envs.reset(seed=self._seed)
        self._seed = None  # A seed is used for one reset only, and later resets continue the random streams.
        self._sums.reset()
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        self.envs.send(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        obs, reward, terminated, truncated, info = self.envs.recv()
        done = terminated | truncated
        self._sums.add(reward)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done):
            infos[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
            if "final_obs" in info and info["_final_obs"][i]:
                infos[i]["terminal_observation"] = info["final_obs"][i]
            infos[i]["episode"] = self._sums.end(i)
        return obs, reward.astype(np.float32), done, infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs, attr_name) for _ in self._indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("the games of one VectorEnv share their settings")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError("the games of one VectorEnv are no Python objects")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False for _ in self._indices(indices)]

    def _indices(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))
