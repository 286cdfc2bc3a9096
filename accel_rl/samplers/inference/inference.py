"""Defines the interface through which the action server acts for a group of environments, and its plain implementation.

`accel_rl.speed` has implementations that replay an earlier inference call, with the same results. A sampler receives an
`Acceleration`, whose class the sampler need not know.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import RnnState, Rollout
from accel_rl.samplers.inference.device_rollouts import DeviceRollouts

Act = Callable[[Agent, Tensor, Tensor, slice, RnnState | None], tuple[Tensor, dict[str, Tensor]]]
"""`Act` is a function (agent, obs, uniform, environments, recurrent state) -> (action, values to record)."""
Play = Callable[[bool], None]
"""`Play` is a function that launches the GPU operations of one rollout. The argument tells whether groups may run in
parallel."""


class Inference:
    """Plain inference calls the agent at every step."""

    reads_frames = False
    """Whether observations may be passed as `FrameStacks`, without gathering them."""

    def begin(self, buffer: int, rollout: Rollout, uniform: Tensor) -> None:
        """Start a rollout, whose actions are determined by the random numbers `uniform` [T, B]."""

    def use(self, agent: Agent, settings: Hashable, state: Tensor | None = None) -> None:
        """Set the agent whose actions are inferred. `settings` are further values on which the agent's actions depend.
        `state` [B, Z] are recurrent states."""

    def replay(self, buffer: int, t: int, group: int) -> bool:
        """Replay a captured inference call for the group at step t of the buffer's rollout, and return whether a replay
        was possible."""
        return False

    @contextmanager
    def capturing(self, buffer: int, t: int, group: int) -> Iterator[None]:
        """Context manager in which the agent acts for the group at step t."""
        yield

    def store(self, out: Tensor, value: Tensor) -> None:
        """Copy a result [n] of inference to the rollout, inside `capturing`."""
        out.copy_(value)


class RolloutPlayer(Protocol):
    """Plays whole rollouts of environments that run on a GPU."""

    def play(self, agent: Agent | None, buffer: int, settings: Hashable, play: Play) -> None:
        """Play a rollout into the buffer. `agent` is None if its actions are drawn before the rollout. `settings` are
        further values on which the rollout depends."""


class Acceleration:
    """Selects how a sampler infers actions; the base class calls the agent at every step."""

    def on_cpu(self, groups: Sequence[slice]) -> Inference:
        """Return the inference for rollouts in host memory. `groups` has the environments of each group."""
        return Inference()

    def on_gpu(self, groups: Sequence[slice], gpu: DeviceRollouts, act: Act) -> Inference:
        """Return the inference for rollouts that are copied to a GPU."""
        return Inference()

    def player(self, device: torch.device) -> RolloutPlayer | None:
        """Return the player of rollouts whose environments run on a GPU, or None if Python plays every step."""
        return None


PLAIN = Acceleration()
