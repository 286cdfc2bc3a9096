"""Epsilon-greedy actions."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.data.rnn_state import RnnState
from accel_rl.kernels.actions import epsilon_greedy
from accel_rl.models.q_network import QNetwork
from accel_rl.ops.q_learning import uniform_action


class EpsilonGreedyAgent:
    """A uniform-random action with probability epsilon, else the one of the highest value.

    epsilon: one number for all environments, or one for each [B]. If it is 1 for all, no observation is needed.
    """

    state_size = 0

    def __init__(self, model: QNetwork, epsilon: float | Tensor = 1.0, epsilon_evaluation: float = 0.05):
        self.model, self.epsilon_evaluation = model, epsilon_evaluation
        self.epsilon = epsilon
        self.explores = True  # whether a noisy network acts with its noise

    @property
    def epsilon(self) -> float | Tensor:
        return self._epsilon

    @epsilon.setter
    def epsilon(self, value: float | Tensor) -> None:
        self._epsilon = value
        new = torch.as_tensor(value, dtype=torch.float32)
        old = getattr(self, "epsilon_tensor", None)
        if old is not None and old.shape == new.shape:
            old.copy_(new)  # in place: its memory does not move between steps
        else:
            self.epsilon_tensor = new.clone()

    @property
    def needs_obs(self) -> bool:
        return isinstance(self.epsilon, Tensor) or self.epsilon < 1

    @property
    def reentrant(self) -> bool:
        return not self.model.noisy  # noise is state of the network

    @torch.no_grad()
    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """obs [N, ...], uniform [N] of the environments b -> (action [N], nothing)."""
        if not self.needs_obs:
            return uniform_action(uniform, self.model.n_actions), {}
        assert obs is not None
        if self.model.noisy and self.explores:
            self.model.resample(_noise(uniform))
        q = self.model.q(obs, noise=self.explores)
        self.epsilon_tensor = self.epsilon_tensor.to(q.device)
        epsilon = self.epsilon_tensor[b] if self.epsilon_tensor.dim() else self.epsilon_tensor
        return epsilon_greedy(q, uniform, epsilon), {}

    def evaluating(self, greedy: bool = False) -> "EpsilonGreedyAgent":
        """The same network with the epsilon of evaluations (0, if greedy)."""
        agent = type(self)(self.model, 0.0 if greedy else self.epsilon_evaluation, self.epsilon_evaluation)
        agent.explores = False
        return agent

    def state_dict(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epsilon = state["epsilon"]


def _noise(uniform: Tensor) -> torch.Generator:
    """A generator seeded by the step's own uniform numbers: noise does not depend on the order of groups."""
    # multiples of 2^-24: their sum is exact
    return torch.Generator().manual_seed(int(uniform.sum(dtype=torch.float64) * 2**24))
