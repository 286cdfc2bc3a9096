"""Agents that sample actions from a policy, with or without an estimate of the values of states."""

from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.data.rollout import RnnState
from accel_rl.kernels.actions import sample_categorical
from accel_rl.ops.masks import masked
from accel_rl.ops.policies import Categorical, Policy
from accel_rl.ops.q_learning import uniform_action


class CategoricalPolicyAgent:
    """Samples actions from softmax(logits), or from another distribution `policy`, and records the value of the
    observation and the log-probability of the chosen action."""

    needs_obs = True
    reentrant = True
    state_size = 0

    def __init__(self, model: nn.Module, greedy: bool = False, policy: Policy | None = None):
        self.model = model
        self.greedy = greedy
        self.policy = policy or Categorical(0)

    def forward(self, obs: Tensor, memory: RnnState | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """The network's outputs with gradients, for losses. For obs [T * n, ...] of n environments over T steps, return
        logits [T * n, A], value [T * n], and the recurrent state after each step [T, n, Z], or None without a
        memory."""
        outputs, value = self.model(obs)
        return masked(outputs, obs, self.policy.mask), value, None

    @torch.no_grad()
    def act(
        self, obs: Tensor, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """obs [N, ...], random numbers `uniform` [N]. Returns (action [N, ...], {value [N], log_prob [N]})."""
        logits, value, states = self.forward(obs, memory)
        if memory is not None and states is not None:
            memory.state.copy_(states[-1])
        if self.greedy or type(self.policy) is not Categorical:
            action = self.policy.mode(logits) if self.greedy else self.policy.sample(logits, uniform)
            chosen = self.policy.log_prob(logits, action)
        else:
            action, chosen = sample_categorical(logits, uniform)
        return action, {"value": value, "log_prob": chosen}

    @torch.no_grad()
    def value(self, obs: Tensor, memory: RnnState | None = None) -> Tensor:
        """V(s) [T * n] of obs [T * n, ...]."""
        return self.forward(obs, memory)[1]

    def evaluating(self, greedy: bool = False) -> "CategoricalPolicyAgent":
        """Return this agent, because A2C and PPO also sample actions in evaluations. With `greedy`, return a copy that
        acts greedily."""
        return type(self)(self.model, greedy, self.policy)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class RecurrentPolicyAgent(CategoricalPolicyAgent):
    """An agent whose network is a `RecurrentActorCritic`."""

    def __init__(self, model: nn.Module, greedy: bool = False, policy: Policy | None = None):
        super().__init__(model, greedy, policy)
        self.state_size = model.state_size  # type: ignore[assignment]

    def forward(self, obs: Tensor, memory: RnnState | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        assert memory is not None, "a recurrent agent needs its memory"
        outputs, value, states = self.model(obs, memory.first, memory.state)
        return masked(outputs, obs, self.policy.mask), value, states


class PolicyAgent:
    """Samples actions from the softmax of its network's logits [N, n_actions], and records nothing. `PolicyAgent` is
    for algorithms that learn from a replay. With probability `epsilon` an action is uniformly random."""

    reentrant = True
    state_size = 0

    def __init__(self, model: nn.Module, n_actions: int, greedy: bool = False):
        self.model, self.n_actions, self.greedy, self.epsilon = model, n_actions, greedy, 0.0

    @property
    def needs_obs(self) -> bool:
        return self.epsilon < 1

    def logits(self, obs: Tensor) -> Tensor:
        """Logits [N, A] for observations [N, ...]. A subclass may compute the logits from other outputs of its
        network."""
        logits: Tensor = self.model(obs)
        return logits

    @torch.no_grad()
    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Choose actions [N] for obs [N, ...] with the random numbers `uniform` [N]. If all actions are random, `obs`
        may be None."""
        if not self.needs_obs:
            return uniform_action(uniform, self.n_actions), {}
        assert obs is not None
        logits = self.logits(obs)
        if self.greedy:
            return logits.argmax(-1), {}
        if not self.epsilon:
            return sample_categorical(logits, uniform)[0], {}
        # Numbers below epsilon are divided by epsilon, and the others rescaled, so that both are uniform in [0, 1).
        action, _ = sample_categorical(logits, (uniform - self.epsilon).clamp(min=0) / (1 - self.epsilon))
        return torch.where(uniform < self.epsilon, uniform_action(uniform / self.epsilon, self.n_actions), action), {}

    def evaluating(self, greedy: bool = False) -> "PolicyAgent":
        """Return an agent with the same network, which never acts uniformly at random."""
        return type(self)(self.model, self.n_actions, greedy)

    def state_dict(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epsilon = state["epsilon"]
