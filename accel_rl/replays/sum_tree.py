"""Sum tree: draws an index with probability in proportion to its weight.

    level 2                 [ 10.0 ]                   each entry is the sum of 32 entries below it; it is always
    level 1      [ 6.5 | 3.5 | 0.0 | ...  ]            recomputed from them, so that rounding does not accumulate
    level 0   [ .5 | 6.0 | ... | 3.5 | 0.0 ...  ]      the weights

A million weights need four levels. A batch of indices descends the tree at once, on any device.
"""

import torch
from torch import Tensor

FANOUT = 32


class SumTree:
    """n weights >= 0, initially 0. Weights are float32, sums float64."""

    def __init__(self, n: int, device: str | torch.device = "cpu"):
        self.n = n
        self.levels: list[Tensor] = []
        size, dtype = n, torch.float32
        while True:
            size = -(-size // FANOUT)
            self.levels.append(torch.zeros(size * FANOUT, dtype=dtype, device=device))
            dtype = torch.float64
            if size == 1:
                break

    @property
    def total(self) -> Tensor:
        """Sum of all weights, [] float64."""
        return self.levels[-1].sum(dtype=torch.float64)

    def __getitem__(self, i: Tensor | slice) -> Tensor:
        return self.levels[0][i]

    def set(self, i: Tensor, weight: Tensor) -> None:
        """Set the weights [k] of indices i [k] int64. A repeated index must have the same weight each time."""
        self.levels[0][i] = weight.to(torch.float32)
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            i = i // FANOUT
            level[i] = below.view(-1, FANOUT).index_select(0, i).sum(-1, dtype=torch.float64)

    def set_range(self, low: int, weight: Tensor) -> None:
        """Set the weights [k], k > 0, of the indices low, low + 1 ..."""
        high = low + len(weight)
        self.levels[0][low:high] = weight
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            low, high = low // FANOUT, (high - 1) // FANOUT + 1
            level[low:high] = below.view(-1, FANOUT)[low:high].sum(-1, dtype=torch.float64)

    def find(self, mass: Tensor) -> Tensor:
        """Return the indices [k] at which the cumulative sum of weights exceeds mass [k] in [0, total), float64."""
        node = torch.zeros_like(mass, dtype=torch.int64)
        for level in reversed(self.levels):
            sums = level.view(-1, FANOUT).index_select(0, node).to(torch.float64).cumsum(-1)
            # if rounding leads past the end, take the last child with a weight
            child = ((sums <= mass[:, None]) & (sums < sums[:, -1:])).sum(-1)
            before = sums.gather(1, (child - 1).clamp(min=0)[:, None]).squeeze(1)
            mass = mass - torch.where(child > 0, before, 0)
            node = node * FANOUT + child
        return node
