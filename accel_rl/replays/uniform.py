"""Uniform sampling."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.replays.ring import FrameRing


class Uniform:
    """Draws cells uniformly, with or without replacement within a batch (Mnih et al. 2015: with)."""

    def __init__(self, ring: FrameRing, seed: int, replacement: bool = True):
        self.ring, self.replacement = ring, replacement
        self.communicator: Communicator = SINGLE_PROCESS
        self.generator = torch.Generator(ring.device).manual_seed(seed)

    def appended(self, before: tuple[int, int]) -> None:
        """Ignored: uniform draws need no bookkeeping."""

    def draw(self, N: int) -> tuple[Tensor, Tensor]:
        """Draw; returns (cells [N] int64, weight [N])."""
        cells = self._with(N) if self.replacement else self._without(N)
        return cells, torch.ones(N, device=self.ring.device)

    def update(self, cell: Tensor, error: Tensor) -> None:
        """Ignored: uniform draws have no priorities."""

    def anneal(self, progress: float) -> None:
        """Ignored: there is no schedule."""

    def _with(self, N: int) -> Tensor:
        ring = self.ring
        low, high = ring.eligible
        cells = torch.randint(low * ring.B, high * ring.B, (N,), generator=self.generator, device=ring.device)
        while ring.refused:  # draw again in place of cells that are not sampleable
            wrong = (~ring.sampleable(cells)).nonzero().squeeze(-1)
            if not len(wrong):
                break
            cells[wrong] = torch.randint(
                low * ring.B, high * ring.B, (len(wrong),), generator=self.generator, device=ring.device
            )
        return cells

    def _without(self, N: int) -> Tensor:
        ring = self.ring
        if len(ring) < 2 * N:  # a large share of all cells: shuffle all
            low, high = ring.eligible
            cells = torch.arange(low * ring.B, high * ring.B, device=ring.device)
            cells = cells[ring.sampleable(cells)]
            return cells[torch.randperm(len(cells), generator=self.generator, device=ring.device)[:N]]
        cells = self._with(N)
        while True:
            cells = torch.unique(cells)
            if len(cells) == N:
                return cells
            cells = torch.cat([cells, self._with(N - len(cells))])

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
