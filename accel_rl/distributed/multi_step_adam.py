"""Several local Adam updates between two pushes (Stooke & Abbeel 2018, appendix A)."""

import math
import time
from collections.abc import Callable

import torch

from accel_rl.distributed.locked_chunk import LOCK_S, LockedChunks
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import Adam, Rule


class MultiStepAdam(LockedChunks):
    """Local updates by the usual Adam, accumulating

        a_g <- beta_1 a_g + g;   a_g2 <- beta_2 a_g2 + g^2;   a_s <- a_s + s   (s: the step taken)

    and every `local_updates` (n) of them, for each chunk of the central parameters (~):

        theta, ~theta <- ~theta - a_s
        m, ~m <- beta_1^n ~m + (1 - beta_1) a_g
        v, ~v <- beta_2^n ~v + (1 - beta_2) a_g2

    The step count belongs to the chunk and grows by n. Epsilon stands where the chunk's `Adam` has it; appendix A's is
    beside the uncorrected root (--algo.rule adam-epsilon-hat).
    """

    def __init__(
        self,
        flat: FlatParameters,
        build_rule: Callable[[int], Rule],
        max_norm: float | None,
        k: int,
        rank: int = 0,
        local_updates: int = 2,
    ):
        super().__init__(flat, build_rule, max_norm, k, rank)
        assert all(isinstance(rule, Adam) for rule in self.rules), "appendix A is Adam's"
        self.local_updates, self._n = local_updates, 0
        self._g, self._g2, self._s = (torch.zeros_like(flat.data) for _ in range(3))

    def prepare(self) -> None:
        """Between local updates nothing is pulled: the local steps are still to be taken centrally."""
        if not self._n:
            super().pull()

    def pull(self) -> bool:
        pushed = self.flush()
        return super().pull() or pushed

    def flush(self) -> bool:
        """Push what has been accumulated. Returns whether there was anything."""
        if not self._n:
            return False
        self._push()
        return True

    def _apply_rule(self, learning_rate: float) -> None:
        if not self._n:  # the local updates begin from the central state
            for k in range(len(self.parts)):
                if self.central.version(k) != self._states[k]:
                    with self.central.held(k, LOCK_S):
                        self._read_state(k)
        for part, rule in zip(self.parts, self.rules, strict=True):
            assert isinstance(rule, Adam)
            g = self.flat.grad[part]
            rule.steps += 1
            rule.mean.mul_(rule.beta_1).add_(g, alpha=1 - rule.beta_1)
            rule.square.mul_(rule.beta_2).addcmul_(g, g, value=1 - rule.beta_2)
            root = rule.square.sqrt().div_(math.sqrt(1 - rule.beta_2**rule.steps)).add_(rule.epsilon_now)
            s = rule.mean.div(root).mul_(learning_rate / (1 - rule.beta_1**rule.steps))
            self.flat.data[part].sub_(s)
            self._g[part].mul_(rule.beta_1).add_(g)
            self._g2[part].mul_(rule.beta_2).addcmul_(g, g)
            self._s[part].add_(s)
        self._n += 1
        if self._n == self.local_updates:
            self._push()

    def _push(self) -> None:
        began, n = time.monotonic(), self._n
        for k in self._free():
            part, rule, (parameters, state) = self.parts[k], self.rules[k], self.central.read(k)
            assert isinstance(rule, Adam)
            self.flat.data[part].copy_(parameters).sub_(self._s[part])
            rule.mean.copy_(state["mean"]).mul_(rule.beta_1**n).add_(self._g[part], alpha=1 - rule.beta_1)
            rule.square.copy_(state["square"]).mul_(rule.beta_2**n).add_(self._g2[part], alpha=1 - rule.beta_2)
            rule.steps = int(state["steps"]) + n
            self._write(k, updates=n)
        for x in (self._g, self._g2, self._s):
            x.zero_()
        self._n = 0
        self.refreshed += 1
        self.times["exchange_s"] += time.monotonic() - began

    def state_dict(self) -> dict:
        self.flush()
        return super().state_dict()
