"""The interface through which the action server computes actions. The class `Inference` is the interface and its
simplest implementation, which calls the agent at every step.

`accel_rl.speed` contains faster implementations, which replay an earlier inference call with new inputs, and give the
same results. A sampler receives an `Acceleration`, which selects the implementation.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.models.precision import Precision
from accel_rl.samplers.inference.device_rollouts import DeviceRollouts

Play = Callable[[bool], None]
"""A function that launches the GPU operations of one rollout. If its argument is true, groups of environments run in
parallel."""


class Inference:
    """Calls the agent at every step. Subclasses may replay captured calls instead."""

    reads_frames = False
    """Whether observations may be `FrameStacks`, which refer to the stacked frames instead of copying them."""

    def begin(self, buffer: int, rollout: Rollout, uniform: Tensor) -> None:
        """Prepare for a rollout. The random numbers `uniform` [T, B] select the actions."""

    def use(self, agent: Agent, settings: Hashable, state: Tensor | None = None) -> None:
        """Set the agent that selects the actions. `settings` are other values on which the actions depend. `state` [B,
        Z] is the agent's recurrent state, or None."""

    def replay(self, buffer: int, t: int, group: int) -> bool:
        """Replay a captured call of the agent. Return false if no call was captured, so that the agent must be
        called."""
        return False

    @contextmanager
    def capturing(self, buffer: int, t: int, group: int) -> Iterator[None]:
        """A context in which the agent is called. Subclasses may capture the call."""
        yield

    def store(self, out: Tensor, value: Tensor) -> None:
        """Copy a result [n] of inference to the rollout's array `out`. If the call of the agent is captured, the copy
        to `out` is captured too."""
        out.copy_(value)


class RolloutPlayer(Protocol):
    """Plays whole rollouts of environments that run on a GPU."""

    def play(self, agent: Agent | None, buffer: int, settings: Hashable, play: Play) -> None:
        """Play a rollout by calling the function `play`, or by replaying an earlier call of `play`. `agent` is None if
        all actions were selected before the rollout. `settings` are other values on which the rollout depends."""


class Acceleration:
    """Selects a sampler's implementation of inference. `Acceleration` itself selects `Inference`, which calls the agent
    at every step."""

    def on_cpu(self, groups: Sequence[slice]) -> Inference:
        """Return the inference for rollouts in host memory. `groups` has the slice of environments of each group."""
        return Inference()

    def on_gpu(self, groups: Sequence[slice], gpu: DeviceRollouts, precision: Precision) -> Inference:
        """Return the inference for rollouts that are copied to a GPU, where the agent computes with the given
        precision."""
        return Inference()

    def player(self, device: torch.device) -> RolloutPlayer | None:
        """Return a player of whole rollouts, or None if every step is launched from Python."""
        return None


PLAIN = Acceleration()
