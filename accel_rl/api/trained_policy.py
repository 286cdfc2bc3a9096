"""A trained agent can act on observations from the user's own program."""

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import RnnState
from accel_rl.data.spec import EnvSpec

X = TypeVar("X", np.ndarray, Tensor)


class TrainedPolicy:
    """A `TrainedPolicy` selects actions as in an evaluation. The state of an LSTM is stored until `reset` is called."""

    def __init__(self, agent: Agent, spec: EnvSpec, seed: int = 0):
        """`agent` is an agent for evaluation. `spec` describes the environment: an observation has the shape
        `spec.obs_shape`, such as [4, 104, 80] (frames, oldest first)."""
        self.agent, self.obs_shape = agent, spec.obs_shape
        self._dtype: torch.dtype = getattr(torch, spec.frame_dtype)
        self._device = next((p.device for p in agent.model.parameters()), torch.device("cpu"))
        self._random = torch.Generator().manual_seed(seed)
        self._state: Tensor | None = None  # `_state` is the state of an LSTM [N, Z].

    def reset(self) -> None:
        """Reset the state of an LSTM, because new episodes begin."""
        self._state = None

    def act(self, obs: X, first: Any = None) -> X:
        """Select actions [N] or [] int64 for observations `obs` [N, ...] or [...], which are arrays or tensors.

        For an LSTM, `first` [N] bool marks the environments whose episode begins with the given observation. Raises
        ValueError for a wrong shape, and for pictures of another type than uint8. Vectors may have any numeric type.
        """
        x = self._checked(torch.as_tensor(obs))
        single = x.dim() == len(self.obs_shape)
        x = x.unsqueeze(0) if single else x
        if tuple(x.shape[1:]) != self.obs_shape:
            raise ValueError(f"observations of shape {list(x.shape[1:])}; the agent was trained on {self.obs_shape}")
        uniform = torch.rand(len(x), generator=self._random).to(self._device)
        with torch.no_grad():
            action, _ = self.agent.act(x.to(self._device), uniform, self._memory(len(x), first))
        action = action.cpu()[0] if single else action.cpu()
        return action.numpy() if isinstance(obs, np.ndarray) else action

    def _checked(self, x: Tensor) -> Tensor:
        """Convert observations to the type on which the network was trained."""
        if self._dtype == torch.uint8 and x.dtype != torch.uint8:
            name = str(x.dtype).removeprefix("torch.")
            raise ValueError(f"observations of {name}; the agent was trained on pictures of uint8, 0 to 255")
        return x.to(self._dtype)

    def _memory(self, n: int, first: Any) -> RnnState | None:
        if not self.agent.state_size:
            return None
        if self._state is None or len(self._state) != n:
            self._state = torch.zeros(n, self.agent.state_size, device=self._device)
        begins = torch.zeros(n, dtype=torch.bool) if first is None else torch.as_tensor(first).reshape(n)
        return RnnState(self._state, begins.unsqueeze(0).to(self._device))
