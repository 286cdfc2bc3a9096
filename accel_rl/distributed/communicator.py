"""Defines collective operations of ranks that train the same parameters, and implements them for a single process."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class CountedSteps(NamedTuple):
    """The numbers of env steps since the last call of `Communicator.count`."""

    of_run: int
    """Env steps of all ranks, by which the schedules advance (exploration, target network, learning rate)."""
    of_batch: int
    """Env steps of the ranks that share each batch, which determine the number of updates."""


class Communicator(Protocol):
    """Collective operations of the `size` ranks that share each batch. All ranks must call
    the same operations in the same order."""

    size: int

    def count(self, env_steps: int) -> CountedSteps:
        """Report the number of env steps of this rank since its last call, and return the sums over ranks."""

    def all_reduce_sum(self, x: Tensor) -> Tensor:
        """Compute the sum of x [...] over the ranks that share a batch, in place."""

    def all_reduce_max(self, x: Tensor) -> Tensor:
        """Compute the maximum of x [...] over the ranks that share a batch, in place."""

    def all_reduce_min(self, n: int) -> int:
        """The minimum of n over the ranks that share a batch."""

    def all_gather(self, numbers: Sequence[int]) -> list[list[int]]:
        """The numbers [N] of each rank, in the order of ranks, without synchronizing with a GPU."""

    def updates(self, of_rank: int) -> int:
        """The number of parameter updates on which schedules are based. `of_rank` is the number of updates that
        this rank's learner has made."""


class SingleProcess:
    """In a run of one process, each operation returns its argument."""

    size = 1

    def count(self, env_steps: int) -> CountedSteps:
        return CountedSteps(env_steps, env_steps)

    def all_reduce_sum(self, x: Tensor) -> Tensor:
        return x

    def all_reduce_max(self, x: Tensor) -> Tensor:
        return x

    def all_reduce_min(self, n: int) -> int:
        return n

    def all_gather(self, numbers: Sequence[int]) -> list[list[int]]:
        return [list(numbers)]

    def updates(self, of_rank: int) -> int:
        return of_rank


SINGLE_PROCESS = SingleProcess()


@torch.no_grad()
def average_buffers(buffers: Sequence[Tensor], communicator: Communicator) -> None:
    """Set the buffers of all ranks to the same values, in place: floating-point buffers to their mean over the ranks,
    and integer buffers to their maximum."""
    if communicator.size == 1:
        return
    floats = [x for x in buffers if x.is_floating_point()]
    _in_one(floats, torch.float64, lambda x: communicator.all_reduce_sum(x) / communicator.size)
    _in_one([x for x in buffers if not x.is_floating_point()], torch.int64, communicator.all_reduce_max)


def _in_one(buffers: list[Tensor], dtype: torch.dtype, reduce: Callable[[Tensor], Tensor]) -> None:
    """Reduce all buffers together by one call of the collective operation `reduce`, and copy the results to the
    buffers."""
    if not buffers:
        return
    reduced = reduce(torch.cat([x.reshape(-1).to(dtype) for x in buffers]))
    for x, part in zip(buffers, reduced.split([x.numel() for x in buffers]), strict=True):
        x.copy_(part.view(x.shape))
