"""Small tabular tasks. Each task tests one part of an algorithm: a mistake in this part changes the best action.

`accel-rl train dqn --env tests.tables:chain --noisy`
"""

from typing import Any

import gymnasium
import numpy as np

from experiments.recall import Recall

Step = tuple[float, int]
"""Reward and next state of an action."""
END = -1
LEFT, RIGHT = 0, 1


class Table(gymnasium.Env[np.ndarray, int]):
    """A deterministic task. States are numbered, and state 0 is the first; states[s][action] is a Step.

    The observation [len(states)] is the one-hot state.
    """

    def __init__(self, states: list[tuple[Step, Step]]):
        self.states = states
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (len(states),), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._state = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._state = 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        reward, self._state = self.states[self._state][action]
        return self._observation(), reward, self._state == END, False, {}

    def _observation(self) -> np.ndarray:
        obs = np.zeros(len(self.states), np.float32)
        if self._state != END:
            obs[self._state] = 1
        return obs


def chain(length: int = 7) -> Table:
    """A chain of states with the reward 1 at its end. One of two actions continues, and the other ends the episode with
    a reward of 0.1.

    The continuing action alternates, so that an action that is good in one state is bad in the next.
    """
    states = []
    for s in range(length):
        leave: Step = (0.1, END)
        stay: Step = (0.0, s + 1) if s < length - 1 else (1.0, END)
        states.append((stay, leave) if s % 2 else (leave, stay))
    return Table(states)


def path(length: int, sooner: float) -> Table:
    """The action left has the immediate reward `sooner`.

    The action right begins a path of `length` steps without choices, of which the last step has the reward 1.
    """
    states: list[tuple[Step, Step]] = [((sooner, END), (0.0, 1))]
    states += [((0.0, s + 1), (0.0, s + 1)) for s in range(1, length - 1)]
    return Table([*states, ((1.0, END), (1.0, END))])


def short_path() -> Table:
    """With a discount of 0.9 the path is worth 0.66, more than the immediate 0.5."""
    return path(length=5, sooner=0.5)


def long_path() -> Table:
    """With a discount of 0.8 the path is worth 0.17, less than the immediate 0.3."""
    return path(length=9, sooner=0.3)


def wage() -> gymnasium.Env:
    """The action left has the reward 0.1 and never ends, but a time limit truncates the episode after two steps. The
    action right ends the episode with the reward 1.

    With a discount of 0.95 the left action is worth 2.
    """
    return gymnasium.wrappers.TimeLimit(Table([((0.1, 0), (1.0, END))]), max_episode_steps=2)


def second_choice() -> Table:
    """The action left ends the episode with 0.5.

    The action right leads to a choice between -1 and 1, worth 0 under a random policy.
    """
    return Table([((0.5, END), (0.0, 1)), ((-1.0, END), (1.0, END))])


def recall() -> Recall:
    """The first observation is one of two cues, which the agent must recall three steps later."""
    return Recall(delay=2, cues=2)
