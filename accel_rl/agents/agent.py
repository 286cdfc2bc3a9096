"""The interface between samplers and agents, and agents that act at random."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from accel_rl.data.rollout import RnnState
from accel_rl.ops.masks import allowed, random_allowed
from accel_rl.ops.policies import Categorical, Policy
from accel_rl.ops.q_learning import uniform_action
from accel_rl.text.errors import RunError


class Agent(Protocol):
    """`act` chooses actions for a batch of observations. An agent draws no random numbers: `act` receives one uniform
    random number per environment.

    If an agent sets the attribute `reads_reward`, the caller of `act` writes the last reward to the last number of the
    agent's recurrent state.

    The runner sets an agent's attribute `epsilon`, if the agent has one, to the current value of the algorithm's
    schedule `epsilon`.
    """

    @property
    def model(self) -> nn.Module: ...

    @property
    def needs_obs(self) -> bool:
        """Whether `act` reads observations. If `act` reads no observations, its argument `obs` is None."""

    @property
    def reentrant(self) -> bool:
        """Whether several threads may call `act` at the same time for different environments. Calls of an agent that is
        not reentrant are serialized."""

    state_size: int
    """Number of values in one environment's recurrent state; 0 without one."""

    def act(
        self, obs: Tensor, uniform: Tensor, memory: RnnState | None, b: slice = ...
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`obs` [N, ...] are observations of the environments `b`, and `uniform` [N] random numbers in [0, 1). Returns
        (action [N] int64, values to record, each [N]). `memory` is the recurrent state at this step, or None for an
        agent without a recurrent state. `act` advances the recurrent state in place."""

    def evaluating(self, greedy: bool = False) -> "Agent":
        """Return an agent with the same parameters that acts as in an evaluation, and greedily if `greedy` is true."""

    def state_dict(self) -> dict[str, Any]:
        """State on which acting depends in addition to the parameters, such as an exploration schedule."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class RandomAgent:
    """Uniformly random actions, to measure the environments' speed without a network, and the score of random play."""

    reentrant = True
    state_size = 0

    def __init__(self, n_actions: int, policy: Policy | None = None):
        """`policy` is the distribution of actions, by default a categorical distribution over `n_actions`."""
        self.n_actions, self.model, self.policy = n_actions, nn.Identity(), policy or Categorical(n_actions)
        self.needs_obs = self.policy.mask > 0

    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`uniform` is [N]. Returns (action [N, ...], no recorded values)."""
        if self.policy.mask and obs is not None:
            return random_allowed(uniform, allowed(obs, self.policy.mask)), {}
        return self.policy.random(uniform), {}

    def evaluating(self, greedy: bool = False) -> "RandomAgent":
        return self

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class FunctionAgent(RandomAgent):
    """A user's function chooses the actions. The function maps observations [N, ...] to actions [N], or to (actions,
    {name: values [N] to record})."""

    reentrant = False

    def __init__(self, n_actions: int, function: Callable[[Tensor], Any], policy: Policy | None = None):
        super().__init__(n_actions, policy)
        self.function, self.needs_obs = function, True

    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Raises RunError if the user's function returns actions of a wrong shape, type or range."""
        assert obs is not None
        result = self.function(obs)
        values, recorded = result if isinstance(result, tuple) else (result, {})
        action = torch.as_tensor(values, device=obs.device)
        wanted = self.policy.random(uniform)
        is_real = wanted.is_floating_point()
        if action.shape != wanted.shape or action.is_floating_point() > is_real or action.dtype == torch.bool:
            raise RunError(
                f"the policy returned actions of {action.dtype} with shape {list(action.shape)}; "
                f"{'numbers' if is_real else 'integers'} of shape {list(wanted.shape)} are needed"
            )
        if action.dim() == 1 and not 0 <= int(action.min()) <= int(action.max()) < self.n_actions:
            raise RunError(f"the policy returned {action.tolist()}; actions are 0 to {self.n_actions - 1}")
        return action.to(wanted.dtype), {
            name: torch.as_tensor(x, device=obs.device).float() for name, x in recorded.items()
        }


class StickyRandomAgent(RandomAgent):
    """Acts at random in one environment. At each step, the agent repeats its last action with probability `keep`."""

    reentrant = False

    def __init__(self, n_actions: int, keep: float):
        super().__init__(n_actions)
        self.keep, self._last = keep, torch.zeros(1, dtype=torch.int64)

    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: RnnState | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`uniform` is [1]. Returns (action [1], no recorded values)."""
        if float(uniform) >= self.keep:
            self._last = uniform_action((uniform - self.keep) / (1 - self.keep), self.n_actions)
        return self._last, {}
