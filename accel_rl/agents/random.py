"""The random agent draws uniform-random actions."""

from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.data.rollout import RnnState
from accel_rl.ops.q_learning import uniform_action


class RandomAgent:
    """Chooses uniform-random actions. Random actions measure the environments' speed without a network, and give the
    lowest score."""

    needs_obs = False
    reentrant = True
    state_size = 0

    def __init__(self, n_actions: int):
        self.n_actions, self.model = n_actions, nn.Identity()

    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Choose random actions from the numbers `uniform` [N]. Returns (action [N], no recorded values)."""
        return uniform_action(uniform, self.n_actions), {}

    def evaluating(self, greedy: bool = False) -> "RandomAgent":
        return self

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class StickyRandomAgent(RandomAgent):
    """Chooses random actions for one environment. Each random action is repeated at the next step with probability
    `keep`."""

    reentrant = False

    def __init__(self, n_actions: int, keep: float):
        super().__init__(n_actions)
        self.keep, self._last = keep, torch.zeros(1, dtype=torch.int64)

    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Choose the next action from the number `uniform` [1]. Returns (action [1], no recorded values)."""
        if float(uniform) >= self.keep:
            self._last = uniform_action((uniform - self.keep) / (1 - self.keep), self.n_actions)
        return self._last, {}
