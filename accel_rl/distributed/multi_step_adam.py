"""A learner makes several local Adam updates between two pushes, and pushes their sum (Stooke & Abbeel 2018, appendix
A)."""

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from accel_rl.distributed.central import Central
from accel_rl.distributed.locked_chunk import LOCK_S, LockedChunks
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizer import Optimizer, Rate
from accel_rl.optim.optimizers import Adam


class MultiStepAdam(LockedChunks):
    """Makes n = `local_updates` local Adam updates between two pushes. Each local update adds its gradient g, the
    square of g, and its step s to sums:

    V: a_g <- beta_1 a_g + g; a_g2 <- beta_2 a_g2 + g^2; a_s <- a_s + s

    Each push then computes new central parameters (~), chunk by chunk:

        theta, ~theta <- ~theta - a_s
        m, ~m <- beta_1^n ~m + (1 - beta_1) a_g
        v, ~v <- beta_2^n ~v + (1 - beta_2) a_g2

    The step count of the chunk's optimizer grows by n. In appendix A, epsilon is added to the root without bias
    correction (--algo.optimizer adam-epsilon-hat).
    """

    def __init__(
        self,
        flat: FlatParameters,
        build_optimizer: Callable[[int], Optimizer],
        max_norm: float | None,
        k: int,
        rank: int = 0,
        local_updates: int = 2,
    ):
        super().__init__(flat, build_optimizer, max_norm, k, rank)
        assert all(isinstance(optimizer, Adam) for optimizer in self.optimizers), "MultiStepAdam needs Adam"
        self.local_updates, self._n = local_updates, 0
        self._steps = [0 for _ in self.parts]  # The step count of each chunk's optimizer
        self.guarded.knows_on_gpu = False  # The host synchronizes to check whether an update was skipped.
        self._g, self._g2, self._s = (torch.zeros_like(flat.data) for _ in range(3))

    def connect(self, central: Central, publish: bool) -> None:
        for k, optimizer in enumerate(self.optimizers):
            assert isinstance(optimizer, Adam)
            self._steps[k] = optimizer.steps
        super().connect(central, publish)

    def _read_state(self, k: int, is_held: bool = False) -> None:
        super()._read_state(k, is_held)
        self._steps[k] = int(self.central.read(k)[1]["steps"])

    def _count(self, k: int, updates: int) -> int:
        """Increase the step count of chunk k's optimizer by `updates`, and return the count."""
        optimizer = self.optimizers[k]
        assert isinstance(optimizer, Adam)
        self._steps[k] += updates
        optimizer.steps = self._steps[k]
        return self._steps[k]

    def pull(self) -> None:
        """Pull the central parameters, unless there are local updates that have not been pushed yet."""
        if not self._n:
            super().pull()

    def pull_now(self) -> bool:
        pushed = self.flush()
        return super().pull_now() or pushed

    def flush(self) -> bool:
        """Push the accumulated local updates, and return whether any update was pushed."""
        if not self._n:
            return False
        self._push_all()
        return True

    def step_chunks(self, learning_rate: Rate, finite: Tensor | None = None) -> None:
        if not self._n:  # The next local updates begin at the central parameters that were pulled.
            for k in range(len(self.parts)):
                if self.central.version(k) != self._states[k]:
                    with self.central.held(k, LOCK_S):
                        self._read_state(k)
        for k, (part, optimizer) in enumerate(zip(self.parts, self.optimizers, strict=True)):
            assert isinstance(optimizer, Adam)
            g = self.flat.grad[part]
            steps = self._count(k, 1)
            optimizer.mean.mul_(optimizer.beta_1).add_(g, alpha=1 - optimizer.beta_1)
            optimizer.square.mul_(optimizer.beta_2).addcmul_(g, g, value=1 - optimizer.beta_2)
            root = (
                optimizer.square.sqrt().div_(math.sqrt(1 - optimizer.beta_2**steps)).add_(optimizer.epsilon_at(steps))
            )
            s = optimizer.mean.div(root).mul_(learning_rate / (1 - optimizer.beta_1**steps))
            self.flat.data[part].sub_(s)
            self._g[part].mul_(optimizer.beta_1).add_(g)
            self._g2[part].mul_(optimizer.beta_2).addcmul_(g, g)
            self._s[part].add_(s)
        self._n += 1
        if self._n == self.local_updates:
            self._push_all()

    def _push_all(self) -> None:
        began, n = time.monotonic(), self._n
        for k in self._free():
            part, optimizer = self.parts[k], self.optimizers[k]
            assert isinstance(optimizer, Adam)
            # Local updates have changed the chunk, so the chunk is read again even if the central version is the same.
            self._parameters[k] = self._states[k] = -1
            self._read_parameters(k, is_held=True)
            self._read_state(k, is_held=True)
            self.flat.data[part].sub_(self._s[part])
            optimizer.mean.mul_(optimizer.beta_1**n).add_(self._g[part], alpha=1 - optimizer.beta_1)
            optimizer.square.mul_(optimizer.beta_2**n).add_(self._g2[part], alpha=1 - optimizer.beta_2)
            self._count(k, n)
            if self._transfer is None:
                self._write(k, updates=n)
            else:
                self._push(k, n)
        for x in (self._g, self._g2, self._s):
            x.zero_()
        self._n = 0
        self.refreshed += 1
        self.times["sync_s"] += time.monotonic() - began

    def state_dict(self) -> dict[str, Any]:
        self.flush()
        return super().state_dict()
