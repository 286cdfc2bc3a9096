"""CPU ranks on one machine all-reduce gradients through shared memory, without copies of the gradient.

    rank 0  | part 0: its gradient | barrier | sums its share of all parts | barrier | reads the sums
    rank 1  | part 1: its gradient | barrier | sums its share of all parts | barrier | reads the sums

A collective operation over sockets would copy the gradient four times.
"""

import math
import os
import time

import numpy as np
import torch
from torch import Tensor

from accel_rl.data.shared_memory import Layout, SharedArrays
from accel_rl.distributed.central import chunks
from accel_rl.distributed.collective import Collective, Watch
from accel_rl.machine.memory_order import fence_of_machine
from accel_rl.optim.flat import FlatParameters
from accel_rl.processes.process import Patience
from accel_rl.text.errors import RunError

_LINE = 8  # A cache line has 8 int64 values.
_SPIN_S = 2e-3  # A waiting rank spins for 2 ms, and then sleeps between its polls.
_SLEEP_S = 2e-4


class SharedMemoryMean:
    """Computes the mean of all ranks' gradients in shared memory. The mean is bitwise identical on
    every rank."""

    def __init__(self, flat: FlatParameters, communicator: Collective, fd: int, timeout_s: float):
        """`fd` is the descriptor of an open file, initially empty, that all ranks share."""
        self._flat = flat
        self.communicator = communicator
        self._timeout_s = timeout_s
        n, R = len(flat.message), communicator.size
        layout: Layout = {"parts": ("float32", (R, n)), "sum": ("float32", (n,)), "turns": ("int64", (R, _LINE))}
        layout["squares"] = ("float64", (R, _LINE))
        memory = SharedArrays.over(layout, fd) if communicator.rank == 0 else None
        communicator.all_reduce_min(0)
        self._memory = memory or SharedArrays.attach(layout, fd)
        pids = communicator.gather(os.getpid())
        communicator.watch = Watch({r: pid for r, pid in enumerate(pids) if r != communicator.rank})
        self._fence = fence_of_machine()
        self._turns, self._squares = self._memory["turns"], self._memory["squares"]
        self._parts, self._sum = torch.from_numpy(self._memory["parts"]), torch.from_numpy(self._memory["sum"])
        shares = chunks(n - 2, R)
        self._share = shares[communicator.rank] if communicator.rank < len(shares) else slice(0, 0)
        # The backward pass writes gradients into shared memory.
        flat.place_gradient(self._parts[communicator.rank])

    def backward(self, loss: Tensor, samples: Tensor | float) -> None:
        self._flat.backward(loss)

    def reduce(self, loss: Tensor, samples: Tensor | float, max_norm: float | None) -> tuple[Tensor, Tensor]:
        parts = self._parts
        share = self._share
        total = self._sum[:-2]
        mine = parts[self.communicator.rank]
        mine[-2], mine[-1] = samples, loss
        self._meet()
        counts, losses = parts[:, -2].tolist(), parts[:, -1].tolist()
        n = sum(counts) or float("nan")  # If no rank has samples, the mean is NaN, so that the update is skipped.
        shares = [part[share] for part in parts]
        self._squares[self.communicator.rank, 0] = _weighted_sum(shares, [count / n for count in counts], total[share])
        self._meet()
        norm = math.sqrt(self._squares[:, 0].sum())
        scale = 1.0 if max_norm is None else min(max_norm / (norm + 1e-6), 1.0)
        torch.mul(total, scale, out=self._flat.grad)
        return torch.tensor(norm), torch.tensor(sum(c * x for c, x in zip(counts, losses, strict=True)) / n)

    def _meet(self) -> None:
        """Wait at a barrier for all ranks. Raises RunError, which names the missing ranks."""
        turns, rank = self._turns, self.communicator.rank
        self._fence()  # Other ranks must not see this rank's new counter value before its gradient.
        turns[rank, 0] += 1
        self._await(turns, turns[rank, 0])
        self._fence()

    def _await(self, turns: np.ndarray, turn: int) -> None:
        """Wait until all ranks have reached barrier number `turn`. `turns` [ranks, 8] counts each rank's barriers."""
        patience = Patience(self._timeout_s)
        spin_until = time.monotonic() + _SPIN_S
        while time.monotonic() < spin_until:
            if (turns[:, 0] >= turn).all():
                return
            os.sched_yield()
        while not (turns[:, 0] >= turn).all():
            if (gone := self.communicator.watch.gone()) and not (turns[:, 0] >= turn).all():
                raise self.communicator.failed(
                    "a gradient", f"the process of rank {', '.join(map(str, gone))} has ended"
                )
            if patience.over:
                late = ", ".join(str(r) for r in range(len(turns)) if turns[r, 0] < turn)
                raise RunError(f"rank {late} is gone or hangs: no gradient within {self._timeout_s:g} s")
            patience.spend(lambda _: time.sleep(_SLEEP_S))


def _weighted_sum(parts: list[Tensor], weights: list[float], out: Tensor) -> float:
    """Compute out [n], the weighted sum of the parts [n] in order, and return the sum of squares of `out`."""
    torch.mul(parts[0], weights[0], out=out)
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        out.add_(part, alpha=weight)
    return float(out.double().square().sum())
