"""A sum tree draws an index with probability in proportion to the index's weight.

    level 2                 [ 10.0 ]                   each entry is the sum of `fanout` entries below it; it is always
    level 1      [ 6.5 | 3.5 | 0.0 | ...  ]            recomputed from them, so that rounding does not accumulate
    level 0   [ .5 | 6.0 | ... | 3.5 | 0.0 ...  ]      the weights

All indices of a batch descend the tree in parallel, on any device. On a GPU an operation takes the same time for 1,024
sums as for 32, so the tree has a large fan-out. A million weights need two levels on a GPU, and four on a CPU. No
operation of the sum tree waits for a GPU.
"""

import torch
from torch import Tensor

from accel_rl.system.devices import Device

HOST_FANOUT, GPU_FANOUT = 32, 1024


class SumTree:
    """A `SumTree` has n weights >= 0, which are initially 0. Weights are float32, and sums are float64."""

    def __init__(self, n: int, device: torch.device | str = "cpu", fanout: int = 0):
        """Each entry of the tree sums `fanout` entries. With 0, the fan-out is the fastest for the device."""
        self.n = n
        self.fanout = fanout or (GPU_FANOUT if Device(device).queues_work else HOST_FANOUT)
        self.levels: list[Tensor] = []
        size, dtype = n, torch.float32
        while True:
            size = -(-size // self.fanout)
            self.levels.append(torch.zeros(size * self.fanout, dtype=dtype, device=device))
            dtype = torch.float64
            if size == 1:
                break
        self._from_last = torch.arange(self.fanout, 0, -1, device=device)

    @property
    def total(self) -> Tensor:
        """Return the sum of all weights, [] float64."""
        return self.levels[-1].sum(dtype=torch.float64)

    def __getitem__(self, i: Tensor | slice) -> Tensor:
        return self.levels[0][i]

    def set(self, i: Tensor, weight: Tensor) -> None:
        """Set the weights [k] of indices i [k] int64. An index that occurs several times must have the same weight each
        time."""
        self.levels[0][i] = weight.to(torch.float32)
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            i = i // self.fanout
            level[i] = below.view(-1, self.fanout).index_select(0, i).sum(-1, dtype=torch.float64)

    def set_range(self, low: int, weight: Tensor) -> None:
        """Set the weights [k], k > 0, of the indices low, low + 1 ..."""
        high = low + len(weight)
        self.levels[0][low:high] = weight
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            low, high = low // self.fanout, (high - 1) // self.fanout + 1
            level[low:high] = below.view(-1, self.fanout)[low:high].sum(-1, dtype=torch.float64)

    def find(self, mass: Tensor) -> Tensor:
        """Return the indices [k] at which the cumulative sum of weights exceeds `mass` [k] in [0, total), float64.
        Rounding never selects an index with weight 0, unless all weights are 0."""
        node = torch.zeros_like(mass, dtype=torch.int64)
        for level in reversed(self.levels):
            weight = level.view(-1, self.fanout).index_select(0, node).to(torch.float64)
            sums = weight.cumsum(-1)
            # The search descends to the first child whose cumulative sum exceeds the mass.
            # If rounding errors leave no such child, the search descends to the last child with a weight.
            order = torch.where(sums > mass[:, None], self.fanout + self._from_last, -self._from_last)
            child = torch.where(weight > 0, order, -self.fanout - 1).argmax(-1)
            before = sums.gather(1, (child - 1).clamp(min=0)[:, None]).squeeze(1)
            mass = mass - torch.where(child > 0, before, 0)
            node = node * self.fanout + child
        return node

    def load(self, levels: list[Tensor]) -> None:
        """Load the levels of another sum tree with the same number of weights."""
        if [len(level) for level in levels] == [len(level) for level in self.levels]:
            for level, saved in zip(self.levels, levels, strict=True):
                level.copy_(saved)
        else:
            self.set_range(0, levels[0][: self.n].to(self.levels[0].device))
