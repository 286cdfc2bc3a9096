"""Sequences of a frame ring, which overlap and begin with a stored recurrent state (Kapturowski et al. 2019, R2D2).

    steps      ... |<- burn-in ->|<-------- length -------->|<- n ->|            one sequence
                   ^ state              ^ state                 one state before every period-th step
    next       ...                |<- burn-in ->|<-------- length -------->|<- n ->|

Each frame is stored once, in the ring, however many sequences contain it. The last n steps of a sequence complete the
n-step returns of the steps before them.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.kernels.frames import gather_stacks, window_stacks
from accel_rl.kernels.ring_arrays import ENDED, SAMPLEABLE, TERMINATED
from accel_rl.replays.ring import FrameRing, NStep, StoredStates


@dataclass(frozen=True, slots=True)
class SequenceShape:
    """Sequences of `burn_in` + `length` steps begin at every `period`-th step, with a state of `state_size` numbers."""

    burn_in: int
    length: int
    period: int
    state_size: int


@dataclass(slots=True)
class SequenceBatch:
    """N sequences of R = burn-in + length + n observations, time-major.

    `frames` are [S - 1 + R, N, *frame_shape]: the observation at t consists of rows t .. t + S - 1. `age` [R, N] is the
    number of steps since the episode's first frame, and 0 at each first step. `action` [R, N] int64, `reward` [R, N]
    (not clipped), `terminated` and `ended` [R, N] bool are those of the step after the observation, as in `Rollout`.
    `mask` [length, N] bool marks the trained steps whose n-step return is known. `state` [N, Z] is the recurrent state
    before the first step. `weight` [N] are importance weights, and `cell` [N], on the replay's device, numbers the
    sequences.

    A sequence has at most C cuts after the burn-in. Where `cut` [C, N] bool is true, a time limit cut the episode after
    the step `cut_t` [C, N], and `cut_obs` [C, N, S, *frame_shape] is its last observation.
    """

    frames: Tensor
    age: Tensor
    action: Tensor
    reward: Tensor
    terminated: Tensor
    ended: Tensor
    mask: Tensor
    state: Tensor
    weight: Tensor
    cell: Tensor
    cut: Tensor
    cut_t: Tensor
    cut_obs: Tensor
    stack: int

    def observations(self, begin: int, end: int) -> Tensor:
        """Observations [(end - begin) * N, S, *frame_shape] of the steps begin .. end - 1."""
        if self.stack == 1:
            return self.frames[begin:end].flatten(0, 1)
        return window_stacks(self.frames, self.age, begin, end - begin, slice(None), self.stack).gather()

    def last(self) -> Tensor:
        """The action and the reward [R, N, 2] before each step."""
        steps = torch.stack([self.action.to(self.reward.dtype), self.reward], -1)
        return torch.cat([self.state[None, :, -2:], steps[:-1]])


class SequenceRing:
    """A ring whose cells are sequences: cell k * B + b begins at row k * period of environment b, in the ring `steps`.

    `Uniform`, `Prioritized` and `Replay` use a `SequenceRing` like a `FrameRing`.
    """

    refused = 0
    compiled = None

    def __init__(
        self,
        spec: EnvSpec,
        B: int,
        size: int,
        returns: NStep,
        device: str | torch.device,
        shape: SequenceShape,
    ):
        """`size` is the capacity in steps, rounded up to complete periods."""
        self.B = B
        self.L = -(-size // (B * shape.period))
        self.shape = shape
        states = StoredStates(self.L * shape.period, B, shape.period, shape.state_size, device)
        self.steps = FrameRing(spec, B, self.L * shape.period * B, returns, device, states)
        self.states = states.states
        self.device, self.frames = self.steps.device, self.steps.frames
        self.rows = shape.burn_in + shape.length + returns.n
        self.first, self.drawable, self.newest = (
            torch.zeros((), dtype=torch.int64, device=self.device) for _ in range(3)
        )
        self._cuts = torch.zeros(self.L, dtype=torch.int64)  # largest number of cuts of a sequence, by row
        self.most_cuts = 0
        self._show((0, 0))

    @property
    def eligible(self) -> tuple[int, int]:
        """Range [low, high) of the rows of complete sequences."""
        oldest, period = self.steps.oldest, self.shape.period
        low = -(-(oldest + self.steps.spec.stack - 1) // period) if oldest else 0
        return low, max(low, (self.steps.cursor - self.rows) // period + 1)

    def __len__(self) -> int:
        low, high = self.eligible
        return (high - low) * self.B

    @property
    def key(self) -> Hashable:
        return self.steps.key, self.most_cuts

    def append(self, rollout: Rollout) -> None:
        before = self.eligible
        self.steps.append(rollout)
        self._show(before)

    def show(self, low: int) -> None:
        """Update which rows from `low` on can be drawn, after the arrays of the ring `steps` have been loaded from a
        checkpoint."""
        self.steps.show(low)
        self._show((0, 0))

    def _show(self, before: tuple[int, int]) -> None:
        """Update the number of cut episodes in each row, and the number of cells that can be drawn. `before` is the
        range of rows that were eligible until now."""
        low, high = self.eligible
        for row in range(max(low, before[1]), high):
            self._cuts[row % self.L] = self._count_cuts(row)
        rows = torch.arange(low, high) % self.L
        self.most_cuts = int(self._cuts[rows].max()) if len(rows) else 0
        self.first.fill_(low * self.B)
        self.drawable.fill_(len(self))
        self.newest.fill_(-(-self.steps.cursor // self.shape.period) * self.B - 1)

    def _count_cuts(self, row: int) -> int:
        host = self.steps.host
        begin = row * self.shape.period + self.shape.burn_in
        steps = torch.arange(begin, row * self.shape.period + self.rows - 1)[:, None] * self.B + torch.arange(self.B)
        position = self.steps.position_of(steps)
        return int(((host.final[position] >= 0) & ((host.flags[position] & TERMINATED) == 0)).sum(0).max())

    def position_of(self, cell: Tensor) -> Tensor:
        return cell % (self.L * self.B)

    def cell_at(self, position: Tensor) -> Tensor:
        return self.newest - (self.newest - position) % (self.L * self.B)

    def sampleable(self, cell: Tensor) -> Tensor:
        return (cell >= self.first) & (cell < self.first + self.drawable)

    def nth(self, k: Tensor) -> Tensor:
        return self.first + k

    def batch(self, cell: Tensor, weight: Tensor) -> SequenceBatch:
        """The sequences with the numbers `cell` [N], which must be sampleable."""
        steps, shape, B = self.steps, self.shape, self.B
        S = steps.spec.stack
        start = cell // B * shape.period * B + cell % B
        rows = torch.arange(1 - S, self.rows, device=self.device)[:, None]
        position = steps.position_of(start + rows * B)  # [S - 1 + R, N]
        frames = steps.frames.index_select(0, position.flatten()).view(*position.shape, *steps.frames.shape[1:])
        position = position[S - 1 :]
        flags, age = steps.flags[position], steps.age[position]
        trained = slice(shape.burn_in, shape.burn_in + shape.length)
        terminated = (flags & TERMINATED) > 0
        final = steps.final[position]
        cut, cut_t = self._find_cuts((final >= 0) & ~terminated)
        return SequenceBatch(
            frames=frames,
            age=age,
            action=steps.action[position].long(),
            reward=steps.reward[position],
            terminated=terminated,
            ended=(flags & ENDED) > 0,
            mask=(flags[trained] & SAMPLEABLE) > 0,
            state=self.states[self.position_of(cell) // B, cell % B],
            weight=weight,
            cell=cell,
            cut=cut,
            cut_t=cut_t,
            cut_obs=self._final_observations(frames, age, cut_t, final.gather(0, cut_t)),
            stack=S,
        )

    def _find_cuts(self, where: Tensor) -> tuple[Tensor, Tensor]:
        """Return the fields `cut` and `cut_t` of a SequenceBatch. `where` [R, N] is true at steps after which a time
        limit cut the episode. The host does not wait for the GPU."""
        begin = self.shape.burn_in
        later = torch.arange(len(where) - 1, begin, -1, device=where.device)[:, None]
        order, t = (where[begin:-1] * later).topk(self.most_cuts, 0)
        return order > 0, t + begin

    def _final_observations(self, frames: Tensor, age: Tensor, t: Tensor, slot: Tensor) -> Tensor:
        """The episodes' last observations [C, N, S, *frame_shape] after the steps t [C, N]. `slot` [C, N] are the slots
        of the last frames."""
        steps = self.steps
        S = steps.spec.stack
        newest = steps.finals.frames.index_select(0, slot.flatten().clamp(min=0))
        if S > 1 and len(t):
            n = torch.arange(t.shape[1], device=t.device).expand_as(t)
            oldest = (age.gather(0, t).long() + 1).clamp(max=S - 1)
            obs = gather_stacks(frames, (t + 1).flatten(), n.flatten(), oldest.flatten(), S)
            obs[:, -1] = newest
            newest = obs
        return newest.unflatten(0, t.shape)
