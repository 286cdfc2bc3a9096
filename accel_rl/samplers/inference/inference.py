"""The class `Inference` is both the interface through which the action server computes actions and an implementation
that calls the agent at every step.

`accel_rl.speed` contains faster implementations, which replay an earlier inference call with the same results. A
sampler receives an `Acceleration`, which selects the implementation.
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
"""`Play` is a function that launches the GPU operations of one rollout. If its argument is true, groups of environments
run in parallel."""


class Inference:
    """Calls the agent at every step. Subclasses may replay captured calls instead."""

    reads_frames = False
    """Whether observations may be `FrameStacks`, in which the stacked frames are not copied."""

    def begin(self, buffer: int, rollout: Rollout, uniform: Tensor) -> None:
        """The random numbers `uniform` [T, B] determine which actions are selected."""

    def use(self, agent: Agent, settings: Hashable, state: Tensor | None = None) -> None:
        """`settings` are other values on which the agent's actions depend. `state` [B, Z] is the agent's recurrent
        state, or None."""

    def replay(self, buffer: int, t: int, group: int) -> bool:
        """Replay a captured call. Return false if there is none, and the agent must be called."""
        return False

    @contextmanager
    def capturing(self, buffer: int, t: int, group: int) -> Iterator[None]:
        """A context in which the agent is called, and which may capture the call."""
        yield

    def store(self, out: Tensor, value: Tensor) -> None:
        """Copy a result [n] of inference to its part of the rollout. A captured call includes this copy."""
        out.copy_(value)


class RolloutPlayer(Protocol):
    """Plays whole rollouts of environments that run on a GPU."""

    def play(self, agent: Agent | None, buffer: int, settings: Hashable, play: Play) -> None:
        """Call `play`, or replay an earlier call. `agent` is None if all actions were drawn before the rollout.
        `settings` are other values on which the rollout depends."""


class Acceleration:
    """Selects the implementation of inference in a sampler: here, calling the agent at every step."""

    def on_cpu(self, groups: Sequence[slice]) -> Inference:
        """Rollouts are in host memory. `groups` lists the slice of environments of each group."""
        return Inference()

    def on_gpu(self, groups: Sequence[slice], gpu: DeviceRollouts, precision: Precision) -> Inference:
        """Rollouts are copied to a GPU, on which the agent acts in the given precision."""
        return Inference()

    def player(self, device: torch.device) -> RolloutPlayer | None:
        """None if every step is launched from Python."""
        return None


PLAIN = Acceleration()
