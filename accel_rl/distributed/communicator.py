"""Those who learn one set of parameters together, as one of them sees the others. Here: nobody else."""

from typing import Protocol

from torch import Tensor


class Peers(Protocol):
    """What an algorithm asks of the other ranks. `size` ranks share each batch; what is asked of one is asked of all,
    in the same order."""

    size: int

    def count(self, env_steps: int) -> tuple[int, int]:
        """So many were taken here -> (by all ranks since the last time, for every schedule's clock; how many of them
        this batch's owners learn from)."""

    def sum_(self, x: Tensor) -> Tensor:
        """x [...] summed over the ranks that share a batch, in place."""

    def max_(self, x: Tensor) -> Tensor:
        """The largest x [...] of the ranks that share a batch, in place."""

    def least(self, n: int) -> int:
        """The smallest of the ranks' n."""


class Alone:
    """One learner: every question is its own answer."""

    size = 1

    def count(self, env_steps: int) -> tuple[int, int]:
        return env_steps, env_steps

    def sum_(self, x: Tensor) -> Tensor:
        return x

    def max_(self, x: Tensor) -> Tensor:
        return x

    def least(self, n: int) -> int:
        return n


ALONE = Alone()
