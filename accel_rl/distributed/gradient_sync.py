"""Computes an update of the parameters from a loss. This module defines the interface `GradientSync`,
and the implementation for a single learner."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from accel_rl.distributed.guarded_step import GuardedStep, SkippedUpdates
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizer import Rate


class GradientSync(ABC):
    """Computes from a loss one update of the parameters `flat.data`, and exchanges gradients or
    parameters with other learners.

    A user's class, `--update module:Class`, is built as `Class(flat, algo, communicator)` by every synchronous rank
    (docs/extending.md has an example). Most users' classes override only the method `step`.
    """

    flat: FlatParameters
    skips: SkippedUpdates
    """Counts the updates that were skipped because of a non-finite loss or gradient."""
    times: dict[str, float]
    """Seconds spent on each activity of synchronization with other ranks, such as pulling parameters."""

    def __init__(self, guarded: GuardedStep):
        self.guarded = guarded
        self.flat = guarded.flat
        self.skips = guarded.skips
        self.times = {}

    def update(self, loss: Tensor, samples: Tensor | float, learning_rate: Rate) -> Tensor:
        """Make one update that reduces a loss [], which is the mean over `samples` [] samples. Return the gradient's
        norm before clipping, []."""
        self.backward(loss, samples)
        return self.step(learning_rate, loss.detach(), samples)

    def backward(self, loss: Tensor, samples: Tensor | float = 1.0) -> None:
        """Compute the gradient of a loss [] into `flat.grad`."""
        self.flat.backward(loss)

    @abstractmethod
    def step(self, learning_rate: Rate, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        """Make one update from `flat.grad`, and return the gradient's norm before clipping, []. `loss` and `samples`
        are the arguments of `backward`. All ranks must skip the same updates (see `GuardedStep`)."""

    def pull(self) -> None:  # noqa: B027  optional
        """Fetch newer parameters, if other learners may have changed the parameters. `pull` is called before an
        off-policy gradient is computed, and before an evaluation."""

    def verify(self) -> None:  # noqa: B027  optional
        """Raise RunError if ranks have different parameters. `verify` is called once for each row of metrics, and
        synchronizes with the GPU."""

    def state_dict(self) -> dict[str, Any]:
        """The state of parameters [P], optimizer and skipped updates, as flat vectors."""
        return self.guarded.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.guarded.load_state_dict(state)


class Local(GradientSync):
    """The `GradientSync` of a single learner, which only clips the gradient and steps the optimizer."""

    def step(self, learning_rate: Rate, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        return self.guarded(learning_rate, loss)
