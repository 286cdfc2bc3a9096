"""Defines the interface through which the action server computes actions. The class `Inference` is both this interface
and an implementation that calls the agent at every step.

`accel_rl.speed` contains faster implementations, which replay an earlier inference call with the same results. A
sampler receives an `Acceleration`, which selects the implementation.
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
"""`Play` is a function that launches the GPU operations of one rollout. If its argument is true, groups of environments
run in parallel."""


class Inference:
    """`Inference` computes actions by calling the agent at every step. Subclasses may replay captured calls instead."""

    reads_frames = False
    """`reads_frames` is true if the implementation accepts observations as `FrameStacks`, in which the stacked frames
    are not copied."""

    def begin(self, buffer: int, rollout: Rollout, uniform: Tensor) -> None:
        """Start a rollout. The random numbers `uniform` [T, B] determine which actions are selected."""

    def use(self, agent: Agent, settings: Hashable, state: Tensor | None = None) -> None:
        """Set the agent that selects actions. `settings` are other values on which the agent's actions depend. `state`
        [B, Z] is the agent's recurrent state, or None."""

    def replay(self, buffer: int, t: int, group: int) -> bool:
        """Replay a captured inference call for a group of environments at step t. Return false if there is no captured
        call, and the agent must be called."""
        return False

    @contextmanager
    def capturing(self, buffer: int, t: int, group: int) -> Iterator[None]:
        """Return a context manager in which the agent is called for a group's actions at step t, and which may capture
        the call."""
        yield

    def store(self, out: Tensor, value: Tensor) -> None:
        """Copy a result `value` [n] of inference to `out` [n], which is part of the rollout. A captured call includes
        this copy."""
        out.copy_(value)


class RolloutPlayer(Protocol):
    """A `RolloutPlayer` plays whole rollouts of environments that run on a GPU."""

    def play(self, agent: Agent | None, buffer: int, settings: Hashable, play: Play) -> None:
        """Play a rollout by calling `play` or by replaying an earlier call, and write the rollout into the buffer.
        `agent` is None if all actions were drawn before the rollout. `settings` are other values on which the rollout
        depends."""


class Acceleration:
    """An `Acceleration` selects the implementation of inference in a sampler. This base class selects calling the agent
    at every step."""

    def on_cpu(self, groups: Sequence[slice]) -> Inference:
        """Return an `Inference` for rollouts in host memory. `groups` lists the slice of environments of each group."""
        return Inference()

    def on_gpu(self, groups: Sequence[slice], gpu: DeviceRollouts, act: Act) -> Inference:
        """Return an `Inference` for rollouts that are copied to a GPU."""
        return Inference()

    def player(self, device: torch.device) -> RolloutPlayer | None:
        """Return an object that plays whole rollouts of environments on a GPU, or None if every step is launched from
        Python."""
        return None


PLAIN = Acceleration()
