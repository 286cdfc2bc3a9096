"""Vector environments of numpy, as a user would write them. The module does not import torch."""

import json
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class Counting(VectorEnv):
    """Environment i's observation is (episode, step, i). The reward is 1 for action 1.

    An episode has 3 to 7 steps. A time limit truncates every third episode. Observations, rewards and ends depend only
    on the seed and the actions.
    """

    def __init__(self, num_envs: int, mode: str = "NextStep"):
        self.num_envs, self.mode = num_envs, AutoresetMode(mode)
        self.metadata = {"autoreset_mode": self.mode}
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.over = np.zeros(num_envs, bool)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        mask = (options or {}).get("reset_mask")
        if mask is None:
            self.first = (seed or 0) % 100
            self.episode = np.full(self.num_envs, self.first)
            self.t = np.zeros(self.num_envs, int)
            self.over[:] = False
        else:
            self.begin(mask)
        return self.observe(), {}

    def begin(self, where: np.ndarray) -> None:
        self.episode = self.episode + where
        self.t = np.where(where, 0, self.t)

    def observe(self) -> np.ndarray:
        return np.stack([self.episode, self.t, np.arange(self.num_envs)], 1).astype(np.float32)

    def step(self, actions: np.ndarray):
        assert self.action_space.contains(np.asarray(actions)), actions
        info: dict[str, Any] = {}
        resets = self.over.copy()
        if self.mode is AutoresetMode.NEXT_STEP:
            self.begin(resets)
        else:
            resets[:] = False
        self.t = np.where(resets, 0, self.t + 1)
        ends = ~resets & (self.t >= 3 + (self.episode + np.arange(self.num_envs)) % 5)
        cut = self.episode % 3 == 0
        reward = np.where(resets, 0.0, np.asarray(actions) == 1)
        self.over = ends
        obs = self.observe()
        if self.mode is AutoresetMode.SAME_STEP and ends.any():
            info["final_obs"] = np.array([o if e else None for o, e in zip(obs, ends, strict=True)], dtype=object)
            self.begin(ends)
            obs = self.observe()
        return obs, reward, ends & ~cut, ends & cut, info


class Saved(Counting):
    def get_state(self) -> bytes:
        values = {name: getattr(self, name).tolist() for name in ("episode", "t", "over")}
        return json.dumps({**values, "first": self.first}).encode()

    def set_state(self, state: bytes) -> None:
        for name, value in json.loads(state).items():
            setattr(self, name, np.array(value) if isinstance(value, list) else value)


def make_counting(num_envs: int, mode: str = "NextStep") -> VectorEnv:
    return Counting(num_envs, mode)


def make_saved(num_envs: int, mode: str = "NextStep") -> VectorEnv:
    return Saved(num_envs, mode)


def make_pole(num_envs: int) -> VectorEnv:
    """Return Gymnasium's vectorized CartPole, which is written in numpy."""
    return gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")


class Failing(Counting):
    def step(self, actions: np.ndarray):
        raise OSError("no server\nanswers")


def make_failing(num_envs: int) -> VectorEnv:
    return Failing(num_envs)


def make_too_many(num_envs: int) -> VectorEnv:
    return Counting(num_envs + 1)


def make_one(num_envs: int) -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")
