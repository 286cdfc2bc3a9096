"""Vector environments of torch tensors on a device, with the episodes of tests/vector_environments.py."""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor


class CountingTensors(VectorEnv):
    """Environments whose observation is (episode, step, number of the environment)."""

    def __init__(self, num_envs: int, mode: str = "NextStep", device: str = "cpu"):
        self.num_envs, self.mode, self.device = num_envs, AutoresetMode(mode), device
        self.metadata = {"autoreset_mode": self.mode}
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.index = torch.arange(num_envs, device=device)
        self.episode, self.t = torch.zeros_like(self.index), torch.zeros_like(self.index)
        self.over = torch.zeros(num_envs, dtype=torch.bool, device=device)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        mask = (options or {}).get("reset_mask")
        if mask is None:
            self.episode = torch.full_like(self.index, (seed or 0) % 100)
            self.t, self.over = torch.zeros_like(self.index), torch.zeros_like(self.over)
        else:
            self.begin(mask)
        return self.observe(), {}

    def begin(self, where: Tensor) -> None:
        self.episode = self.episode + where
        self.t = torch.where(where, 0, self.t)

    def observe(self) -> Tensor:
        return torch.stack([self.episode, self.t, self.index], 1).float()

    def step(self, actions: Tensor):
        assert actions.device == self.index.device and actions.dtype == torch.int64
        info: dict[str, Any] = {}
        resets = self.over if self.mode is AutoresetMode.NEXT_STEP else torch.zeros_like(self.over)
        self.begin(resets)
        self.t = torch.where(resets, 0, self.t + 1)
        ends = ~resets & (self.t >= 3 + (self.episode + self.index) % 5)
        cut = self.episode % 3 == 0
        reward = torch.where(resets, 0.0, (actions == 1).float())
        self.over = ends
        obs = self.observe()
        if self.mode is AutoresetMode.SAME_STEP:
            info["final_obs"] = obs
            self.begin(ends)
            obs = self.observe()
        return obs, reward, ends & ~cut, ends & cut, info


def make(num_envs: int, mode: str = "NextStep", device: str = "cpu") -> VectorEnv:
    return CountingTensors(num_envs, mode, device)


class WithoutFinalObs(CountingTensors):
    def step(self, actions: Tensor):
        *results, _ = super().step(actions)
        return *results, {}


def make_without_final_obs(num_envs: int, mode: str = "SameStep", device: str = "cpu") -> VectorEnv:
    return WithoutFinalObs(num_envs, mode, device)


def make_dict(num_envs: int) -> VectorEnv:
    env = CountingTensors(num_envs)
    env.single_observation_space = gymnasium.spaces.Dict({"x": gymnasium.spaces.Discrete(2)})
    return env
