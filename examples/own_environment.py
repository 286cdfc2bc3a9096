"""PPO on a user's own environment. Worker processes import this file for the environment, so the file needs a main
guard."""

import sys

import gymnasium
import numpy as np

import accel_rl


class Corridor(gymnasium.Env):
    """A corridor of ten cells, the last of which is the goal. The observation is the agent's position, from 0 to 1."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self._obs(), {}

    def step(self, action):
        self.cell = max(0, self.cell + (1 if action else -1))
        at_goal = self.cell == 9
        return self._obs(), float(at_goal) - 0.01, at_goal, False, {}

    def _obs(self):
        return np.array([self.cell / 9], np.float32)


def make_env():
    return gymnasium.wrappers.TimeLimit(Corridor(), 100)


if __name__ == "__main__":
    # The function is imported from the example's module, because workers cannot import from __main__.
    from own_environment import make_env as importable

    env_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    run = accel_rl.train("ppo", env=importable, env_steps=env_steps, envs=8, workers=1, learning_rate=1e-3)
    print(run.evaluate(episodes=10).mean)
