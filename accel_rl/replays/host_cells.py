"""For each transition of the replay, the host keeps a copy of its flags, age and final-frame slot, so that the host
never has to synchronize with a GPU."""

import torch
from torch import Tensor

from accel_rl.kernels.ring_arrays import ENDED, SAMPLEABLE, TERMINATED, VALID


class HostCells:
    """The host's copy of the state of the ring's L x B cells. If the ring is in host memory, `flags`, `age` and `final`
    are the ring's own arrays.

    `flags` and `age` are [L * B] uint8, and `final` is [L * B] int32. `refused` [L] int64 is the number of cells in
    each row that cannot be drawn because one of their n steps is missing.
    """

    def __init__(self, L: int, B: int, n: int, flags: Tensor, age: Tensor, final: Tensor):
        """`flags`, `age` and `final` are the ring's arrays on its device; arrays on a GPU are copied to the host."""
        self.L = L
        self.B = B
        self.n = n
        self.flags = flags.cpu()
        self.age = age.cpu()
        self.final = final.cpu()
        self.refused = torch.zeros(L, dtype=torch.int64)

    def mark(self, low: int, high: int) -> None:
        """Mark which cells of rows [low, high) can be drawn. The n steps after these rows must already be in the
        ring."""
        row = torch.arange(low, high)
        cells = row[:, None] * self.B + torch.arange(self.B)
        good = torch.ones_like(cells, dtype=torch.bool)
        goes_on = torch.ones_like(good)
        size = self.L * self.B
        for k in range(self.n):
            position, after = (cells + k * self.B) % size, (cells + (k + 1) * self.B) % size
            flags = self.flags[position]
            # If an episode begins before the last one has ended, a worker process was replaced and steps are missing.
            complete = ((flags & VALID) > 0) & (((flags & ENDED) > 0) | (self.age[after] > 0))
            good &= ~goes_on | complete
            goes_on &= (flags & (TERMINATED | ENDED)) == 0
        position = cells % size
        self.flags[position] = (self.flags[position] & ~SAMPLEABLE) | (good * SAMPLEABLE).to(torch.uint8)
        self.refused[row % self.L] = (~good).sum(1)

    def count_refused(self, low: int, high: int) -> int:
        """Number of cells of rows [low, high) that cannot be drawn."""
        return sum(int(self.refused[part].sum()) for part in self._parts(low, high))

    def drawable_before(self, low: int, high: int) -> Tensor:
        """Cumulative counts [L + 1] int64: entry i is the number of cells that can be drawn in rows [low, low + i),
        where rows from `high` on count as empty."""
        before = torch.zeros(self.L + 1, dtype=torch.int64)
        drawable = self.B - torch.cat([self.refused[part] for part in self._parts(low, high)])
        before[1 : high - low + 1] = drawable.cumsum(0)
        before[high - low + 1 :] = before[high - low]
        return before

    def _parts(self, low: int, high: int) -> tuple[slice, slice]:
        begin, end = low % self.L, low % self.L + high - low
        return slice(begin, min(end, self.L)), slice(0, max(0, end - self.L))
