"""Buffers of a network that synchronous ranks change without a gradient, such as running means."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from accel_rl.distributed.communicator import Communicator


@torch.no_grad()
def average_buffers(buffers: Sequence[Tensor], communicator: Communicator) -> None:
    """Give all ranks the same buffers: the mean of floating-point ones, the largest value of integer ones, in place."""
    if communicator.size == 1:
        return
    floats = [x for x in buffers if x.is_floating_point()]
    _in_one(floats, torch.float64, lambda x: communicator.all_reduce_sum(x) / communicator.size)
    _in_one([x for x in buffers if not x.is_floating_point()], torch.int64, communicator.all_reduce_max)


def _in_one(buffers: list[Tensor], dtype: torch.dtype, reduce: Callable[[Tensor], Tensor]) -> None:
    """Reduce buffers of any shapes by one collective."""
    if not buffers:
        return
    reduced = reduce(torch.cat([x.reshape(-1).to(dtype) for x in buffers]))
    for x, part in zip(buffers, reduced.split([x.numel() for x in buffers]), strict=True):
        x.copy_(part.view(x.shape))
