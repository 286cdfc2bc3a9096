"""A stochastic policy over discrete actions, with a value estimate."""

from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.ops.policy_gradient import sample_categorical


class CategoricalPolicyAgent:
    """Samples from softmax(logits); records the value and the log-probability of the action taken."""

    def __init__(self, model: nn.Module, greedy: bool = False):
        self.model = model
        self.greedy = greedy

    @torch.no_grad()
    def act(self, obs: Tensor, uniform: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """obs [N, ...], uniform [N] -> (action [N], {value [N], log_prob [N]})."""
        logits, value = self.model(obs)
        action = logits.argmax(-1) if self.greedy else sample_categorical(logits, uniform)
        log_prob = torch.log_softmax(logits, -1).gather(-1, action.unsqueeze(-1)).squeeze(-1)
        return action, {"value": value, "log_prob": log_prob}

    @torch.no_grad()
    def value(self, obs: Tensor) -> Tensor:
        """obs [N, ...] -> V(s) [N]."""
        return self.model(obs)[1]

    def evaluating(self, greedy: bool = False) -> "CategoricalPolicyAgent":
        """A2C and PPO are evaluated as they act: sampling (or greedily, if asked)."""
        return CategoricalPolicyAgent(self.model, greedy)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
