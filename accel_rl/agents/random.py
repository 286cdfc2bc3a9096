"""Uniform-random actions."""

from typing import Any

from torch import Tensor, nn

from accel_rl.data.rnn_state import RnnState
from accel_rl.ops.q_learning import uniform_action


class RandomAgent:
    """Uniform-random actions: the environments' own speed, and the lowest score."""

    needs_obs = False
    reentrant = True
    state_size = 0

    def __init__(self, n_actions: int):
        self.n_actions, self.model = n_actions, nn.Identity()

    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """uniform [N] -> (action [N], nothing)."""
        return uniform_action(uniform, self.n_actions), {}

    def evaluating(self, greedy: bool = False) -> "RandomAgent":
        return self

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
