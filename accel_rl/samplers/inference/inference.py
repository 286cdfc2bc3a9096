"""Defines the interface through which the action server computes actions, and an implementation that calls the agent.

`accel_rl.speed` has implementations that replay an earlier inference call, with the same results. A sampler receives an
`Acceleration`, which selects the implementation.
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
"""`Play` is a function that launches the GPU operations of one rollout. The function's argument allows groups of
environments to run in parallel."""


class Inference:
    """`Inference` calls the agent at every step."""

    reads_frames = False
    """Whether the implementation accepts observations as `FrameStacks`, whose stacked frames are not copied."""

    def begin(self, buffer: int, rollout: Rollout, uniform: Tensor) -> None:
        """Start a rollout, whose actions are determined by the random numbers `uniform` [T, B]."""

    def use(self, agent: Agent, settings: Hashable, state: Tensor | None = None) -> None:
        """Set the agent that selects actions. `settings` are further values on which the agent's actions depend.
        `state` [B, Z] are recurrent states."""

    def replay(self, buffer: int, t: int, group: int) -> bool:
        """Replay a captured inference call for a group of environments at step t, and return whether a replay was
        possible."""
        return False

    @contextmanager
    def capturing(self, buffer: int, t: int, group: int) -> Iterator[None]:
        """Return a context manager in which the agent selects a group's actions at step t."""
        yield

    def store(self, out: Tensor, value: Tensor) -> None:
        """Copy a result [n] of inference to the rollout; the copy is part of the captured call."""
        out.copy_(value)


class RolloutPlayer(Protocol):
    """A `RolloutPlayer` plays whole rollouts of environments that run on a GPU."""

    def play(self, agent: Agent | None, buffer: int, settings: Hashable, play: Play) -> None:
        """Play a rollout, and write it into the buffer. `agent` is None if all actions were drawn before the rollout.
        `settings` are further values on which the rollout depends."""


class Acceleration:
    """An `Acceleration` selects how a sampler infers actions. The base class `Acceleration` calls the agent at every
    step."""

    def on_cpu(self, groups: Sequence[slice]) -> Inference:
        """Return an `Inference` for rollouts in host memory. `groups` has the environments of each group."""
        return Inference()

    def on_gpu(self, groups: Sequence[slice], gpu: DeviceRollouts, act: Act) -> Inference:
        """Return an `Inference` for rollouts that are copied to a GPU."""
        return Inference()

    def player(self, device: torch.device) -> RolloutPlayer | None:
        """Return the player of rollouts whose environments run on a GPU, or None if Python plays every step."""
        return None


PLAIN = Acceleration()
