"""Small environments such as a user writes. The module does not import torch, so that worker processes start fast."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Arms(gymnasium.Env):
    """A bandit with episodes of one step: action 0 has the reward 10, action 1 the reward 100."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), (100.0 if action else 10.0), True, False, {"best": bool(action)}


class Endless(Arms):
    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {}


class RareNaN(Arms):
    """On average, one reward in 50 is NaN."""

    def step(self, action):
        reward = np.nan if self.np_random.random() < 0.02 else 1.0
        return np.zeros(2, np.float32), reward, bool(self.np_random.random() < 0.1), False, {}


class Pixels(gymnasium.Env):
    """Observations are random pictures in colour."""

    observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self._look(), {}

    def step(self, action):
        return self._look(), 1.0, bool(self.np_random.random() < 0.1), False, {}

    def _look(self):
        return self.np_random.integers(0, 256, self.observation_space.shape).astype(np.uint8)


class Small(Pixels):
    observation_space = spaces.Box(0, 255, (8, 8), np.uint8)


class Grey(Pixels):
    observation_space = spaces.Box(0, 255, (36, 36), np.uint8)
