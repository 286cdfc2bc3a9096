"""Actions that depend on nothing."""

from typing import Any

from torch import Tensor, nn

from accel_rl.data.rnn_state import RnnState


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
        return (uniform * self.n_actions).long().clamp_(max=self.n_actions - 1), {}

    def capturable(self) -> None:
        """Never asked step by step."""

    def evaluating(self, greedy: bool = False) -> "RandomAgent":
        return self

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
