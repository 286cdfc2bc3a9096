"""Those who learn one set of parameters together, as one of them sees the others. Here: nobody else."""

from typing import Protocol

from torch import Tensor


class Communicator(Protocol):
    """What an algorithm asks of the other ranks. `size` ranks share each batch; what is asked of one is asked of all,
    in the same order."""

    size: int

    def count(self, env_steps: int) -> tuple[int, int]:
        """So many were taken here -> (by all ranks since the last time, for every schedule's clock; how many of them
        this batch's owners learn from)."""

    def all_reduce_sum(self, x: Tensor) -> Tensor:
        """x [...] summed over the ranks that share a batch, in place."""

    def all_reduce_max(self, x: Tensor) -> Tensor:
        """The largest x [...] of the ranks that share a batch, in place."""

    def all_reduce_min(self, n: int) -> int:
        """The smallest of the ranks' n."""


class SingleProcess:
    """One learner: every question is its own answer."""

    size = 1

    def count(self, env_steps: int) -> tuple[int, int]:
        return env_steps, env_steps

    def all_reduce_sum(self, x: Tensor) -> Tensor:
        return x

    def all_reduce_max(self, x: Tensor) -> Tensor:
        return x

    def all_reduce_min(self, n: int) -> int:
        return n


SINGLE_PROCESS = SingleProcess()
