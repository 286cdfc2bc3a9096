"""Prioritized experience replay with a sum tree (Schaul et al. 2016, arXiv:1511.05952)."""

import math
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from accel_rl.checkpoints.generator_state import restore
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.kernels import native
from accel_rl.kernels.replay_gather import FANOUT, host_tree
from accel_rl.machine.devices import Device
from accel_rl.replays.ring import FrameRing

GPU_FANOUT = 1024


class SumTree:
    """n weights >= 0, which are initially 0, and their partial sums. Weights are float32, and sums are float64."""

    def __init__(self, n: int, device: torch.device | str = "cpu", fanout: int = 0):
        """Each entry of a level is the sum of `fanout` entries of the level below. If `fanout` is 0, the fastest
        fan-out for the device is used."""
        self.n = n
        self.fanout = fanout or (GPU_FANOUT if Device(device).queues_work else FANOUT)
        self.levels: list[Tensor] = []
        size, dtype = n, torch.float32
        while True:
            size = -(-size // self.fanout)
            self.levels.append(torch.zeros(size * self.fanout, dtype=dtype, device=device))
            dtype = torch.float64
            if size == 1:
                break
        self._compiled = host_tree(self.levels, self.fanout)
        from_last = torch.arange(self.fanout, 0, -1, device=device)
        # Constants with which `find` selects a child by an argmax
        self._if_above, self._if_below = self.fanout + from_last, -from_last

    @property
    def total(self) -> Tensor:
        """Sum of all weights, [] float64."""
        return _sum(self.levels[-1])

    @property
    def compiled(self) -> Any:
        """The compiled kernels of the tree, or None if torch operations are used instead."""
        return None if native.is_left_out() else self._compiled

    def __getitem__(self, i: Tensor | slice) -> Tensor:
        return self.levels[0][i]

    def set(self, i: Tensor, weight: Tensor) -> None:
        """Set the weights [k] of the indices `i` [k] int64. An index that occurs several times must have the same
        weight each time."""
        self.levels[0][i] = weight.to(torch.float32)
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            i = i // self.fanout
            level[i] = _sum(below.view(-1, self.fanout).index_select(0, i))

    def set_range(self, low: int, weight: Tensor) -> None:
        """Set the weights [k] of the indices low, low + 1 ..., where k > 0."""
        high = low + len(weight)
        self.levels[0][low:high] = weight
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            low, high = low // self.fanout, (high - 1) // self.fanout + 1
            level[low:high] = _sum(below.view(-1, self.fanout)[low:high])

    def find(self, mass: Tensor) -> Tensor:
        """Indices [k] at which the cumulative sum of weights exceeds `mass` [k] in [0, total), float64. Rounding never
        selects an index with weight 0, unless all weights are 0."""
        node = torch.zeros_like(mass, dtype=torch.int64)
        for level in reversed(self.levels):
            weight = level.view(-1, self.fanout).index_select(0, node).to(torch.float64)
            sums = weight.cumsum(-1)
            # The search descends to the first child whose cumulative sum exceeds the mass. If no cumulative sum exceeds
            # the mass, due to rounding errors, the search descends to the last child with a weight above 0.
            order = torch.where(sums > mass[:, None], self._if_above, self._if_below)
            child = order.masked_fill_(weight <= 0, -self.fanout - 1).argmax(-1)
            before = sums.gather(1, (child - 1).clamp(min=0)[:, None]).squeeze(1)
            mass = mass - before.masked_fill_(child == 0, 0)
            node = torch.add(child, node, alpha=self.fanout)
        return node

    def load(self, levels: list[Tensor]) -> None:
        """Load saved levels, which may have another fan-out."""
        if [len(level) for level in levels] == [len(level) for level in self.levels]:
            for level, saved in zip(self.levels, levels, strict=True):
                level.copy_(saved)
        else:
            self.set_range(0, levels[0][: self.n].to(self.levels[0].device))


def _sum(weight: Tensor) -> Tensor:
    """Sums [...] float64 of weights [..., k]. On a CPU, the weights are added in order, so that torch and compiled
    kernels round equally on all CPUs."""
    if weight.is_cpu:
        return weight.cumsum(-1, dtype=torch.float64)[..., -1]
    return weight.sum(-1, dtype=torch.float64)


class Prioritized:
    """Proportional prioritization (section 3.3): P(i) = p_i^alpha / sum_k p_k^alpha with p_i = |error| + epsilon.

    One index is drawn from each of N equal intervals of the priorities' sum (appendix B.2.1). New transitions get the
    largest priority so far, and overwritten transitions get priority zero. The importance weights (section 3.4) are (N
    P(i))^-beta, divided by the largest weight of the batch.

    With R ranks, each rank holds a part of the replay and draws the same number of samples: P(i) = p_i^alpha / (R sum_k
    p_k^alpha), where k runs over the rank's part. The largest priority and the largest weight are maxima over all
    ranks. N and R cancel out of the importance weights."""

    has_priorities = True

    def __init__(
        self, ring: FrameRing, seed: int, alpha: float, beta: float, beta_final: float = 1.0, epsilon: float = 1e-6
    ):
        """`beta` is annealed linearly to `beta_final` at the end of the run."""
        self.ring = ring
        self.alpha = alpha
        self.epsilon = epsilon
        self._betas = beta, beta_final
        self.communicator: Communicator = SINGLE_PROCESS
        self.tree = SumTree(ring.L * ring.B, ring.device)
        # `highest` and `_exponent` are changed in place, because CUDA graphs read them.
        self.highest = torch.ones((), device=ring.device)  # Largest priority^alpha so far, used for new transitions
        self._exponent = torch.zeros((), dtype=torch.float64, device=ring.device)
        self.beta = beta
        self.generator = torch.Generator(ring.device).manual_seed(seed)

    @property
    def beta(self) -> float:
        """Current exponent of the importance weights."""
        return self._beta_on_host

    @beta.setter
    def beta(self, beta: float) -> None:
        self._beta_on_host = beta
        self._exponent.fill_(-beta)

    @property
    def key(self) -> Hashable:
        """None, because a captured draw depends only on tensors at fixed addresses."""
        return None

    def appended(self, before: tuple[int, int]) -> None:
        """Update the priorities after an append. `before` is the range [low, high) of rows that were eligible before
        the append."""
        self.communicator.all_reduce_max(self.highest)
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
        """Draw N cells. Return (cells [N] int64, importance weights [N])."""
        ring, device = self.ring, self.ring.device
        uniform = torch.rand(N, dtype=torch.float64, generator=self.generator, device=device)
        host, tree = ring.compiled, self.tree.compiled
        if host is not None and tree is not None:
            cells, probability = tree.draw(uniform, host, ring.cursor * ring.B - 1)
        else:
            total = self.tree.total
            position = self.tree.find((torch.arange(N, device=device) + uniform) * (total / N))
            cells, probability = ring.cell_at(position), self.tree[position].double() / total
        weight = probability.pow_(self._exponent)
        if tree is not None and self.communicator is SINGLE_PROCESS:
            return cells, tree.normalise(weight)
        largest = self.communicator.all_reduce_max(weight.max())
        return cells, (weight / largest).float()

    def update(self, cell: Tensor, error: Tensor) -> None:
        """Set the priorities of the cells `cell` [N] from `error` [N]; a cell that occurs twice must have the same
        error. Cells that the ring has overwritten are skipped. If only some errors of the batch are not finite, the
        transitions with these errors are never drawn again."""
        error = error.detach() if error.requires_grad else error
        weight = error.abs().to(torch.float32).add_(self.epsilon).pow_(self.alpha)
        host, tree = self.ring.compiled, self.tree.compiled
        if host is not None and tree is not None:
            tree.update(cell, weight, host, *self.ring.inside, self.highest)
            return
        position, finite = self.ring.position_of(cell), weight < math.inf
        sampleable, weight = self.ring.sampleable(cell), weight.nan_to_num_(0, posinf=0)
        torch.maximum(self.highest, (weight * sampleable).max(), out=self.highest)
        # If no error of the batch is finite, priorities do not change.
        self.tree.set(position, torch.where(sampleable & finite.any(), weight, self.tree[position]))

    def anneal(self, progress: float) -> None:
        self.beta = self._betas[0] + (self._betas[1] - self._betas[0]) * progress

    def state_dict(self) -> dict[str, Any]:
        return {
            "generator": self.generator.get_state(),
            "highest": self.highest,
            "beta": self.beta,
            "levels": list(self.tree.levels),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(self.generator, state["generator"])
        self.highest.copy_(state["highest"])
        self.beta = state["beta"]
        self.tree.load(state["levels"])
