"""The recall task needs memory: the agent recalls a cue that was shown some steps ago.

The command `accel-rl train ppo --env experiments.recall:make --lstm 64` reaches a score of about 1 with the LSTM, and
0.25 without the LSTM.
"""

from typing import Any

import gymnasium
import numpy as np


class Recall(gymnasium.Env[np.ndarray, int]):
    """The cue is visible only at the first step. After `delay` blank steps the action must equal the cue (reward 1).

    In an observation [cues + 1], the cue is one-hot, and the last entry is 1 when the answer is due. Earlier actions
    have no effect.
    """

    def __init__(self, delay: int = 8, cues: int = 4):
        self.delay, self.cues = delay, cues
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (cues + 1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(cues)
        self._cue = self._t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._cue, self._t = int(self.np_random.integers(self.cues)), 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        answers = self._t == self.delay + 1
        reward = float(answers and action == self._cue)
        self._t += 1
        return self._observation(), reward, answers, False, {}

    def _observation(self) -> np.ndarray:
        obs = np.zeros(self.cues + 1, np.float32)
        if self._t == 0:
            obs[self._cue] = 1
        obs[-1] = self._t == self.delay + 1
        return obs


def make() -> Recall:
    return Recall()


def make_stacked() -> gymnasium.Env[np.ndarray, int]:
    """Concatenates the last four observations to one vector, which no longer contains the cue when the answer is
    due."""
    stacked = gymnasium.wrappers.FrameStackObservation(Recall(), 4, padding_type="zero")
    return gymnasium.wrappers.FlattenObservation(stacked)
