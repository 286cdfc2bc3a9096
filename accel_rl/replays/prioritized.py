"""Prioritized experience replay (Schaul et al. 2016, arXiv:1511.05952)."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.replays.ring import FrameRing
from accel_rl.replays.sum_tree import SumTree


class Prioritized:
    """Proportional prioritization, section 3.3: P(i) = p_i^alpha / sum_k p_k^alpha with p_i = |error| + epsilon.

    One index is drawn from each of N equal intervals of the sum (appendix B.2.1). New transitions get the largest
    priority so far; overwritten transitions get priority zero. Importance weights, section 3.4: (N P(i))^-beta, divided
    by the largest weight of the batch.

    With R ranks each holds a part of the replay, and all draw the same number of samples: P(i) = p_i^alpha /
    (R sum_k p_k^alpha), k over the rank's part. The largest priority and the largest weight are those of all ranks.
    """

    def __init__(
        self, ring: FrameRing, seed: int, alpha: float, beta: float, beta_final: float = 1.0, epsilon: float = 1e-6
    ):
        """beta, beta_final: at the beginning and at the end of the run; annealed linearly."""
        self.ring, self.alpha, self.beta, self.epsilon = ring, alpha, beta, epsilon
        self._betas = beta, beta_final
        self.communicator: Communicator = SINGLE_PROCESS
        self.tree = SumTree(ring.L * ring.B, ring.device)
        self.highest = torch.ones((), device=ring.device)  # largest priority^alpha so far
        self.generator = torch.Generator(ring.device).manual_seed(seed)

    def appended(self, before: tuple[int, int]) -> None:
        """Set the priorities of newly appended rows. before: the rows [low, high) that were eligible until then."""
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
        uniform = torch.rand(N, dtype=torch.float64, generator=self.generator, device=device)
        total = self.tree.total
        at = self.tree.find((torch.arange(N, device=device) + uniform) * (total / N))
        probability = self.tree[at].double() / total
        weight = (len(ring) * probability) ** -self.beta
        cell = self._cell(at)
        return cell, self._among_peers(cell, (weight / weight.max()).float())

    def _among_peers(self, cell: Tensor, weight: Tensor) -> Tensor:
        """Rescale weight [N] from this rank's largest weight to the largest of all ranks. The factor R cancels out."""
        if self.communicator.size == 1:
            return weight
        rarest = self.tree[self.ring.at(cell[weight.argmax()])].double() / self.tree.total
        largest = rarest**-self.beta
        return weight * (largest / self.communicator.all_reduce_max(largest.clone())).float()

    def _cell(self, at: Tensor) -> Tensor:
        """Return the cells that are now stored at positions `at` of the ring's memory."""
        size, newest = self.ring.L * self.ring.B, self.ring.cursor * self.ring.B - 1
        return newest - (newest - at) % size

    def update(self, cell: Tensor, error: Tensor) -> None:
        """Set priorities |error| [N] of cells [N]; overwritten cells are skipped."""
        weight = (error.detach().abs().to(torch.float32) + self.epsilon) ** self.alpha
        weight = torch.where(weight.isfinite(), weight, self.highest)  # non-finite error: draw it again soon
        at, there = self.ring.at(cell), self.ring.sampleable(cell)
        self.highest = torch.maximum(self.highest, torch.where(there, weight, 0).max())
        self.tree.set(at, torch.where(there, weight, self.tree[at]))

    def anneal(self, progress: float) -> None:
        """Set beta. progress: fraction of the run that is done."""
        self.beta = self._betas[0] + (self._betas[1] - self._betas[0]) * progress

    def state_dict(self) -> dict[str, Any]:
        return {
            "generator": self.generator.get_state(),
            "highest": self.highest,
            "beta": self.beta,
            "levels": list(self.tree.levels),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
        self.highest = state["highest"].to(self.ring.device)
        self.beta = state["beta"]
        for level, saved in zip(self.tree.levels, state["levels"], strict=True):
            level.copy_(saved)
