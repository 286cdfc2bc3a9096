"""Prioritized experience replay (Schaul et al. 2016, arXiv:1511.05952)."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.replays.ring import FrameRing
from accel_rl.replays.sum_tree import SumTree


class Prioritized:
    """Proportional prioritization, section 3.3: P(i) = p_i^alpha / sum_k p_k^alpha with p_i = |error| + epsilon.

    One index is drawn from each of N equal stretches of the sum (appendix B.2.1). New transitions enter at the largest
    priority so far, and those that are not in the ring any more have none. Weights in the loss, section 3.4:
    (N P(i))^-beta, divided by the largest of the batch.

    `peers` hold other parts and draw as many each: from one of R parts, P(i) = p_i^alpha / (R sum_k p_k^alpha), k over
    the part. The largest priority and the largest weight are those of all.
    """

    def __init__(
        self, ring: FrameRing, seed: int, alpha: float, beta: float, beta_final: float = 1.0, epsilon: float = 1e-6
    ):
        """beta: at the beginning of the run and, reached linearly, at its end."""
        self.ring, self.alpha, self.beta, self.epsilon = ring, alpha, beta, epsilon
        self._betas = beta, beta_final
        self.communicator: Communicator = SINGLE_PROCESS
        self.tree = SumTree(ring.L * ring.B, ring.device)
        self.highest = torch.ones((), device=ring.device)  # priority^alpha, of all so far
        self._generator = torch.Generator(ring.device).manual_seed(seed)

    def appended(self, before: tuple[int, int]) -> None:
        """Note a new block of the ring. `before`: the cells that were eligible until then."""
        self.highest = self.communicator.all_reduce_max(self.highest)
        low, high = self.ring.eligible
        self._set_rows(before[0], min(low, before[1]), None)
        self._set_rows(max(before[1], low), high, self.highest)

    def _set_rows(self, low: int, high: int, weight: Tensor | None) -> None:
        B, L = self.ring.B, self.ring.L
        while low < high:
            end = min(high, low + L - low % L)
            cells = torch.arange(low * B, end * B, device=self.ring.device)
            weights = torch.zeros(len(cells), device=self.ring.device)
            if weight is not None:
                weights = torch.where(self.ring.sampleable(cells), weight, weights)
            self.tree.set_range(low % L * B, weights)
            low = end

    def draw(self, N: int) -> tuple[Tensor, Tensor]:
        """Draw; returns (cells [N] int64, weight [N])."""
        ring, device = self.ring, self.ring.device
        uniform = torch.rand(N, dtype=torch.float64, generator=self._generator, device=device)
        total = self.tree.total
        at = self.tree.find((torch.arange(N, device=device) + uniform) * (total / N))
        probability = self.tree[at].double() / total
        weight = (len(ring) * probability) ** -self.beta
        cell = self._cell(at)
        return cell, self._among_peers(cell, (weight / weight.max()).float())

    def _among_peers(self, cell: Tensor, weight: Tensor) -> Tensor:
        """weight [N], divided by the largest here -> by the largest of all; the ranks' number cancels out."""
        if self.communicator.size == 1:
            return weight
        rarest = self.tree[self.ring.at(cell[weight.argmax()])].double() / self.tree.total
        largest = rarest**-self.beta
        return weight * (largest / self.communicator.all_reduce_max(largest.clone())).float()

    def _cell(self, at: Tensor) -> Tensor:
        """The cells now at places `at` of the ring's memory."""
        size, newest = self.ring.L * self.ring.B, self.ring.cursor * self.ring.B - 1
        return newest - (newest - at) % size

    def update(self, cell: Tensor, error: Tensor) -> None:
        """Set priorities |error| [N] of cells [N]; overwritten cells are skipped."""
        weight = (error.detach().abs().to(torch.float32) + self.epsilon) ** self.alpha
        weight = torch.where(weight.isfinite(), weight, self.highest)  # an update that failed: look at it again
        at, there = self.ring.at(cell), self.ring.sampleable(cell)
        self.highest = torch.maximum(self.highest, torch.where(there, weight, 0).max())
        self.tree.set(at, torch.where(there, weight, self.tree[at]))

    def anneal(self, progress: float) -> None:
        """Set beta by the share of the run that is done."""
        self.beta = self._betas[0] + (self._betas[1] - self._betas[0]) * progress

    def state_dict(self) -> dict[str, Any]:
        return {
            "generator": self._generator.get_state(),
            "highest": self.highest,
            "beta": self.beta,
            "levels": list(self.tree.levels),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._generator.set_state(state["generator"])
        self.highest = state["highest"].to(self.ring.device)
        self.beta = state["beta"]
        for level, saved in zip(self.tree.levels, state["levels"], strict=True):
            level.copy_(saved)
