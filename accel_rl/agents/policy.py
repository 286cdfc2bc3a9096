"""An actor-critic agent samples discrete actions from its policy, and estimates the values of states."""

from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.data.rollout import RnnState
from accel_rl.kernels.actions import sample_categorical
from accel_rl.ops.policy_loss import log_prob


class CategoricalPolicyAgent:
    """A `CategoricalPolicyAgent` samples actions from softmax(logits), and records the value of the observation and the
    log-probability of the chosen action."""

    needs_obs = True
    reentrant = True
    state_size = 0

    def __init__(self, model: nn.Module, greedy: bool = False):
        self.model = model
        self.greedy = greedy

    def forward(self, obs: Tensor, memory: RnnState | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute the network's outputs with gradients, for losses. For obs [T * n, ...] of n environments over T
        steps, return logits [T * n, A], value [T * n], and the recurrent state after each step [T, n, Z], or None
        without a memory."""
        return *self.model(obs), None

    @torch.no_grad()
    def act(
        self, obs: Tensor, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Sample actions for obs [N, ...] with random numbers `uniform` [N]. Returns (action [N], {value [N], log_prob
        [N]})."""
        logits, value, states = self.forward(obs, memory)
        if memory is not None and states is not None:
            memory.state.copy_(states[-1])
        if self.greedy:
            action = logits.argmax(-1)
            chosen = log_prob(logits, action)
        else:
            action, chosen = sample_categorical(logits, uniform)
        return action, {"value": value, "log_prob": chosen}

    @torch.no_grad()
    def value(self, obs: Tensor, memory: RnnState | None = None) -> Tensor:
        """Estimate the values V(s) [T * n] of obs [T * n, ...]."""
        return self.forward(obs, memory)[1]

    def evaluating(self, greedy: bool = False) -> "CategoricalPolicyAgent":
        """Return this agent itself, because A2C and PPO also sample actions in evaluations. If `greedy` is true, return
        a greedy copy of this agent."""
        return type(self)(self.model, greedy)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class RecurrentPolicyAgent(CategoricalPolicyAgent):
    """`RecurrentPolicyAgent` is a `CategoricalPolicyAgent` whose network is a `RecurrentActorCritic`."""

    def __init__(self, model: nn.Module, greedy: bool = False):
        super().__init__(model, greedy)
        self.state_size = model.state_size  # type: ignore[assignment]

    def forward(self, obs: Tensor, memory: RnnState | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        assert memory is not None, "a recurrent agent needs its memory"
        return self.model(obs, memory.first, memory.state)
