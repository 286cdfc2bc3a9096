"""How the ranks that learn one set of parameters add up numbers. Here: for a single process."""

from typing import NamedTuple, Protocol

from torch import Tensor


class CountedSteps(NamedTuple):
    """Env steps that were taken since the last count."""

    of_run: int
    """By all ranks, in env steps: schedules (exploration, target copies, learning rates) advance by it."""
    of_batch: int
    """By the ranks that share each batch, in env steps: they call for updates at the training intensity."""


class Communicator(Protocol):
    """Collective operations of the `size` ranks that share each batch. All of them call each operation, in the same
    order."""

    size: int

    def count(self, env_steps: int) -> CountedSteps:
        """Add the env steps that this rank took since its last call; returns what all ranks took."""

    def all_reduce_sum(self, x: Tensor) -> Tensor:
        """Sum of x [...] over the ranks that share a batch, in place."""

    def all_reduce_max(self, x: Tensor) -> Tensor:
        """Maximum of x [...] over the ranks that share a batch, in place."""

    def all_reduce_min(self, n: int) -> int:
        """Minimum of n over the ranks that share a batch."""


class SingleProcess:
    """A learner by itself: every result is its own argument."""

    size = 1

    def count(self, env_steps: int) -> CountedSteps:
        return CountedSteps(env_steps, env_steps)

    def all_reduce_sum(self, x: Tensor) -> Tensor:
        return x

    def all_reduce_max(self, x: Tensor) -> Tensor:
        return x

    def all_reduce_min(self, n: int) -> int:
        return n


SINGLE_PROCESS = SingleProcess()
