"""Transitions are sampled uniformly from the replay."""

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from accel_rl.checkpoints.generator_state import restore
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.machine.devices import Device
from accel_rl.replays.ring import FrameRing


class Uniform:
    """Uniform draws, with replacement (Mnih et al. 2015) or without."""

    has_priorities = False

    def __init__(self, ring: FrameRing, seed: int, replacement: bool = True):
        self.ring, self.replacement = ring, replacement
        self.communicator: Communicator = SINGLE_PROCESS
        self.generator = torch.Generator(ring.device).manual_seed(seed)
        self._largest = 0  # The size of the largest batch so far

    @property
    def key(self) -> Hashable:
        """A value that changes when captured draws become invalid."""
        # Without replacement, a batch has only len(ring) cells if the ring has fewer cells than requested.
        few = not self.replacement and len(self.ring) < self._largest
        return self.ring.refused > 0, len(self.ring) if few else None

    def appended(self, before: tuple[int, int]) -> None:
        """Uniform draws need no bookkeeping."""

    def draw(self, N: int) -> tuple[Tensor, Tensor]:
        """Draw N cells. Return (cells [N] int64, weights [N]). Without replacement, a replay with n < N cells returns
        all n cells."""
        self._largest = max(N, self._largest)
        ring = self.ring
        if self.replacement and (compiled := ring.compiled) is not None:
            cells, weight = compiled.nth(
                self._uniform(N), len(ring), ring.inside[0], ring.before if ring.refused else None
            )
            return cells, weight
        if self.replacement:
            cells = self._with(N)
        else:
            cells = self._top(N) if Device(ring.device).queues_work else self._without(N)
        return cells, torch.ones(len(cells), device=ring.device)

    def update(self, cell: Tensor, error: Tensor) -> None:
        """Uniform draws have no priorities."""

    def anneal(self, progress: float) -> None:
        """Uniform draws have no schedule."""

    def _uniform(self, N: int) -> Tensor:
        return torch.rand(N, dtype=torch.float64, generator=self.generator, device=self.ring.device)

    def _with(self, N: int) -> Tensor:
        return self.ring.nth((self._uniform(N) * self.ring.drawable).long())

    def _top(self, N: int) -> Tensor:
        """Draw without replacement on a GPU: assign a random key to each cell, and return the cells with the largest
        keys."""
        ring = self.ring
        k = torch.arange(ring.L * ring.B, device=ring.device)
        keys = torch.rand(len(k), dtype=torch.float64, generator=self.generator, device=ring.device)
        keys = torch.where(k < ring.drawable, keys, -1)
        return ring.nth(keys.topk(min(N, len(ring))).indices)

    def _without(self, N: int) -> Tensor:
        ring = self.ring
        if len(ring) < 2 * N:  # A large batch is drawn by shuffling all cells.
            return ring.nth(torch.randperm(len(ring), generator=self.generator)[:N])
        cells = self._with(N)
        while True:
            cells = torch.unique(cells)
            if len(cells) == N:
                return cells
            cells = torch.cat([cells, self._with(N - len(cells))])

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(self.generator, state["generator"])
