"""An epsilon-greedy agent explores with uniformly random actions."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.data.rollout import RnnState
from accel_rl.kernels.actions import epsilon_greedy, largest_value
from accel_rl.models.recurrent import RecurrentQNetwork
from accel_rl.models.sequence_q_network import SequenceQNetwork
from accel_rl.ops.masks import allowed, masked, random_allowed
from accel_rl.ops.q_learning import uniform_action


class EpsilonGreedyAgent:
    """Selects a uniformly random action with probability epsilon, and otherwise the action with the highest value.

    `epsilon` is one number for all environments, or one number per environment [B]. If epsilon is 1 for all
    environments and the agent records nothing, no observation is needed. If epsilon is one number, environment i
    explores with probability epsilon ** powers[i] (`spread`).

    A subclass overrides `record` to record values at every step, such as the largest action value.
    """

    state_size = 0

    def __init__(
        self,
        model: Any,
        epsilon: float | Tensor = 1.0,
        epsilon_evaluation: float = 0.05,
    ):
        self.model, self.epsilon_evaluation = model, epsilon_evaluation
        self._powers: Tensor | None = None
        self.epsilon = epsilon
        self.mask: int = getattr(model, "mask", 0)  # Size of the observations' action mask, or 0 without one
        self.explores = True  # Whether the agent explores, so that a noisy network adds noise to its weights

    def spread(self, powers: Tensor) -> None:
        """Exponents [B] of epsilon, one for each environment."""
        self._powers, self.epsilon = powers, self.epsilon

    @property
    def powers(self) -> Tensor | None:
        return self._powers

    @property
    def epsilon(self) -> float | Tensor:
        return self._epsilon

    @epsilon.setter
    def epsilon(self, value: float | Tensor) -> None:
        if self._powers is not None and not isinstance(value, Tensor) and 0 < value < 1:
            value = torch.full_like(self._powers, value) ** self._powers
        self._epsilon = value
        shape = value.shape if isinstance(value, Tensor) else torch.Size([])
        old: Tensor | None = getattr(self, "epsilon_tensor", None)
        if old is None or old.shape != shape:
            device = value.device if isinstance(value, Tensor) else next(self.model.parameters()).device
            self.epsilon_tensor = old = torch.empty(shape, device=device)
        if isinstance(value, Tensor):
            # Epsilon is changed in place, because a captured inference step reads epsilon from a fixed address.
            old.copy_(value)
        else:
            old.fill_(value)  # `fill_` is queued on the GPU, so the host does not wait.

    @property
    def needs_obs(self) -> bool:
        records = type(self).record is not EpsilonGreedyAgent.record or self.mask > 0
        return records or isinstance(self.epsilon, Tensor) or self.epsilon < 1

    @property
    def reentrant(self) -> bool:
        return not self.model.noisy  # Threads would share the noise, which is part of a noisy network.

    def record(self, q: Tensor) -> dict[str, Tensor]:
        """Return the values to record at one step, by name, each [N], from the action values q [N, A]. `record` must
        have no side effects, because a GPU may replay its computation."""
        return {}

    def forward(self, obs: Tensor, memory: RnnState | None = None) -> tuple[Tensor, Tensor | None]:
        """Action values with gradients, for losses. For obs [T * n, ...] of n environments over T steps, return q [T *
        n, A] and the recurrent state after each step [T, n, Z], or None without a memory."""
        return masked(self.model.q(obs, noise=self.explores), obs, self.mask), None

    @torch.no_grad()
    def value(self, obs: Tensor, memory: RnnState | None = None) -> Tensor:
        """max_a Q(s, a) [N] of each observation in obs [N, ...]."""
        return self.forward(obs, memory)[0].amax(-1)

    @torch.no_grad()
    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`obs` [N, ...] are observations of the environments `b`, and `uniform` [N] random numbers. Returns (action
        [N], the values that `record` returns)."""
        if not self.needs_obs:
            return uniform_action(uniform, self.model.n_actions), {}
        assert obs is not None
        if self.model.noisy and self.explores:
            self.model.resample(_seed(uniform))
        q, states = self.forward(obs, memory)
        if memory is not None and states is not None:
            memory.state[:, : states.shape[-1]].copy_(states[-1])
        if self.epsilon_tensor.device != q.device:
            self.epsilon_tensor = self.epsilon_tensor.to(q.device)
        epsilon = self.epsilon_tensor[b] if self.epsilon_tensor.dim() else self.epsilon_tensor
        if self.mask:
            explored = random_allowed(uniform / epsilon, allowed(obs, self.mask))
            return torch.where(uniform < epsilon, explored, q.argmax(-1)), self.record(q)
        return epsilon_greedy(q, uniform, epsilon), self.record(q)

    def evaluating(self, greedy: bool = False) -> "EpsilonGreedyAgent":
        """Return an agent with the same network, and with the epsilon of evaluations, or epsilon 0 if `greedy` is
        true."""
        agent = type(self)(self.model, 0.0 if greedy else self.epsilon_evaluation, self.epsilon_evaluation)
        agent.explores = False
        return agent

    def state_dict(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epsilon = state["epsilon"]


class MaxValueAgent(EpsilonGreedyAgent):
    """Records max_a Q(s, a) as `value`."""

    def record(self, q: Tensor) -> dict[str, Tensor]:
        return {"value": largest_value(q)}


class RecurrentMaxValueAgent(MaxValueAgent):
    """A `MaxValueAgent` whose network is a `RecurrentQNetwork`."""

    model: RecurrentQNetwork

    @property
    def state_size(self) -> int:  # type: ignore[override]
        return self.model.state_size

    def forward(self, obs: Tensor, memory: RnnState | None = None) -> tuple[Tensor, Tensor | None]:
        assert memory is not None, "a recurrent agent needs its memory"
        q, states = self.model(obs, memory.first, memory.state)
        return masked(q, obs, self.mask), states


class LastStepAgent(EpsilonGreedyAgent):
    """An agent whose network is a `SequenceQNetwork`, which also reads the last action and the last reward."""

    model: SequenceQNetwork
    needs_obs = True
    reads_reward = True

    @property
    def state_size(self) -> int:  # type: ignore[override]
        return self.model.state_size

    def forward(self, obs: Tensor, memory: RnnState | None = None) -> tuple[Tensor, Tensor | None]:
        assert memory is not None, "a recurrent agent needs its memory"
        q, states = self.model(obs, memory.first, memory.state, noise=self.explores)
        return masked(q, obs, self.mask), states

    @torch.no_grad()
    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        action, recorded = super().act(obs, uniform, memory, b)
        assert memory is not None
        memory.state[:, -2].copy_(action)
        return action, recorded


def _seed(uniform: Tensor) -> Tensor:
    """The seed [] of a step's noise, computed from the step's uniform random numbers [N]."""
    # The random numbers are multiples of 2^-24, so their sum is exact and does not depend on their order.
    return (uniform.sum(dtype=torch.float64) * 2**24).long()
