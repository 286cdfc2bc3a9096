"""Environments with various action spaces, whose best actions are known."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 8


class Targets(gymnasium.Env):
    """The reward is 1 for the best action, which depends on the observation x, and less for other actions."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, action_space: spaces.Space[Any]):
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._t = 0
        return self._observe(), {}

    def step(self, action: Any):
        assert self.action_space.contains(action), action
        reward = float(self.reward(action))
        self._t += 1
        return self._observe(), reward, False, self._t == STEPS, {}

    def _observe(self) -> np.ndarray:
        self.x = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.x

    def reward(self, action: Any) -> float:
        raise NotImplementedError


class Numbers(Targets):
    """The best action is the pair of real numbers (x0, 0.5 - x1 / 2)."""

    def reward(self, action: np.ndarray) -> float:
        a = action.reshape(-1)
        return 1 - (a[0] - self.x[0]) ** 2 - (a[1] - 0.5 + self.x[1] / 2) ** 2


class Choices(Targets):
    """The best action is a pair of integers: 5, 6 or 7 for x0 in the first, second or last third of [-1, 1], and (x1 >
    0)."""

    def reward(self, action: np.ndarray) -> float:
        return 0.5 * (action[0] == 5 + int((self.x[0] + 1) * 1.4999)) + 0.5 * (action[1] == (self.x[1] > 0))


class Bits(Targets):
    def reward(self, action: np.ndarray) -> float:
        return float(np.mean(action == (self.x > 0)))


def numbers() -> gymnasium.Env:
    return Numbers(spaces.Box(np.array([[-np.inf], [0]], np.float32), np.array([[np.inf], [1]], np.float32)))


def choices() -> gymnasium.Env:
    return Choices(spaces.MultiDiscrete([3, 2], start=[5, 0]))


def bits() -> gymnasium.Env:
    return Bits(spaces.MultiBinary(3))


def integers() -> gymnasium.Env:
    return Numbers(spaces.Box(0, 9, (2,), np.int64))


class Masked(Targets):
    """At each step, two to four random actions of five are allowed. A forbidden action raises an error.

    The best action is the allowed action that is nearest to 2 + 2 x0. An episode ends when x1 > 0.8.
    """

    def __init__(self, kind: str = "vector"):
        super().__init__(spaces.Discrete(5))
        x = spaces.Box(0, 255, (12, 12), np.uint8) if kind == "picture" else spaces.Box(-1, 1, (3,), np.float32)
        # Gymnasium sorts the entries of an observation by name, so that `action_mask` comes before `x`.
        self.observation_space = spaces.Dict({"action_mask": spaces.MultiBinary(5), "x": x})
        self.kind = kind

    def step(self, action: int):
        assert self.mask[action], f"action {action} of {self.mask}"
        distance = np.abs(np.arange(5) - (2 + 2 * self.x[0])) + np.where(self.mask, 0, 100)
        reward = float(action == distance.argmin())
        terminated = bool(self.x[1] > 0.8)
        self._t += 1
        return self._observe(), reward, terminated, self._t == STEPS, {}

    def _observe(self) -> Any:
        x = super()._observe()
        self.mask = np.zeros(5, np.int8)
        self.mask[self.np_random.choice(5, self.np_random.integers(2, 5), replace=False)] = 1
        picture = np.full((12, 12), int(127 + 120 * x[0]), np.uint8)
        return {"action_mask": self.mask.copy(), "x": picture if self.kind == "picture" else x}


def masks(kind: str = "vector") -> gymnasium.Env:
    return Masked(kind)


class Strict(gymnasium.Wrapper):
    """A wrapper that raises an error for an action that the mask in the last `info` forbids."""

    def reset(self, **options):
        obs, self.info = self.env.reset(**options)
        return obs, self.info

    def step(self, action: int):
        assert self.info["action_mask"][action], f"action {action} of {self.info['action_mask']}"
        *result, self.info = self.env.step(action)
        return *result, self.info


def taxi() -> gymnasium.Env:
    """Gymnasium's Taxi with a time limit of 30 steps, which truncates many episodes."""
    return Strict(gymnasium.make("Taxi-v4", max_episode_steps=30))


def taxis(num_envs: int, mode: str = "NextStep") -> gymnasium.vector.VectorEnv:
    return gymnasium.vector.SyncVectorEnv([taxi] * num_envs, autoreset_mode=gymnasium.vector.AutoresetMode(mode))


def forgetful() -> gymnasium.Env:
    """Gymnasium's Taxi, whose `info` has an action mask only after a reset."""
    return Unmasked(gymnasium.make("Taxi-v4"))


def taxis_without_masks(num_envs: int, mode: str = "NextStep") -> gymnasium.vector.VectorEnv:
    """A vector environment of Taxis, of which the last has action masks only after resets."""
    return gymnasium.vector.SyncVectorEnv(
        [*[taxi] * (num_envs - 1), forgetful], autoreset_mode=gymnasium.vector.AutoresetMode(mode)
    )


class Unmasked(gymnasium.Wrapper):
    def step(self, action: int):
        *result, info = self.env.step(action)
        return *result, {"prob": info["prob"]}
