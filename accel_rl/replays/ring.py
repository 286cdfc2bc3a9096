"""The frame ring: the last L steps of B simulators, each frame stored once.

    row     ... |  t-3   t-2   t-1    t   t+1  | ...          stack of 4 at t: rows t-3 .. t, as far as age[t] reaches
    oldest |<-S-1->|<--------- eligible --------->|<- n ->| cursor: the next row to write; it replaces the oldest
               incomplete stack                incomplete transition

Rows are numbered from the first step of the run, without wrapping; row t is stored at t modulo L. The cell of row t and
environment b has the number t * B + b.
"""

import math

import torch
from torch import Tensor

from accel_rl.data.replay_batch import ReplayBatch
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.replays.final_frames import NONE, FinalFrames
from accel_rl.replays.huge_pages import zeros
from accel_rl.replays.returns import NStep

TERMINATED, ENDED, VALID, SAMPLEABLE = 1, 2, 4, 8  # bits of `flags`
STEPS_PER_FINAL = 200  # final frames are reserved for episodes of this mean length


class FrameRing:
    """Experience organised by simulator (Stooke & Abbeel 2018, section 5.3).

    A cell holds the newest frame of the observation before the step, its age, the action, the raw reward and the flags
    of the step: one frame and 11 bytes, 12 with more than 256 actions. All memory is allocated at the start.
    """

    def __init__(self, spec: EnvSpec, B: int, size: int, returns: NStep, device: str | torch.device = "cpu"):
        """size: capacity in transitions, rounded up to complete rows."""
        self.spec, self.B, self.returns, self.device = spec, B, returns, torch.device(device)
        self.L = -(-size // B)
        if returns.n + spec.stack + 1 > self.L:
            raise ValueError(f"a replay of {size} transitions of {B} environments is too small to hold one of them")
        n, dtype = self.L * B, getattr(torch, spec.frame_dtype)
        self.frames = zeros((n, *spec.frame_shape), dtype, self.device)
        self.age = torch.zeros(n, dtype=torch.uint8, device=self.device)
        self.action = torch.zeros(n, dtype=torch.uint8 if spec.n_actions <= 256 else torch.int16, device=self.device)
        self.reward = torch.zeros(n, device=self.device)
        self.flags = torch.zeros(n, dtype=torch.uint8, device=self.device)
        self.final = torch.full((n,), NONE, dtype=torch.int32, device=self.device)
        self.finals = FinalFrames(spec, n // STEPS_PER_FINAL + B, self.device)
        self.cursor = 0
        self.refused = 0  # number of eligible cells that cannot be drawn, because one of their n steps is missing
        self._refused = torch.zeros(self.L, dtype=torch.int64)  # the same number for each row
        self._lags = torch.arange(spec.stack - 1, -1, -1, device=self.device)  # oldest frame of a stack first

    # -- contents ------------------------------------------------------------

    @property
    def oldest(self) -> int:
        return max(0, self.cursor - self.L)

    @property
    def eligible(self) -> tuple[int, int]:
        """Rows [low, high) with complete stacks and transitions."""
        low = self.oldest + self.spec.stack - 1
        return low, max(low, self.cursor - self.returns.n)

    def __len__(self) -> int:
        """Number of transitions that can be drawn."""
        low, high = self.eligible
        return (high - low) * self.B - self.refused

    def at(self, cell: Tensor) -> Tensor:
        """Return the positions of cells [...] in the ring's memory."""
        return cell % (self.L * self.B)

    def sampleable(self, cell: Tensor) -> Tensor:
        """Whether cells [...] can be drawn: not overwritten, not too new, and without a missing step. -> [...] bool."""
        low, high = self.eligible
        inside = (cell >= low * self.B) & (cell < high * self.B)
        return inside & ((self.flags[self.at(cell)] & SAMPLEABLE) > 0)

    @property
    def nbytes(self) -> int:
        arrays = (self.frames, self.age, self.action, self.reward, self.flags, self.final)
        return sum(a.nbytes for a in arrays) + self.finals.nbytes

    # -- writing ------------------------------------------------------------

    def append(self, rollout: Rollout) -> None:
        """Copy a rollout of T steps into the ring, in one block, or in two at the ring's end."""
        S, T = self.spec.stack, rollout.T
        if T + self.returns.n + S > self.L:
            raise ValueError(f"the replay has {self.L} steps of each environment: too few for rollouts of {T}")
        flags = rollout.terminated * TERMINATED + rollout.ended * ENDED + rollout.valid * VALID
        final = torch.full(rollout.ended.shape, NONE, dtype=torch.int32, device=self.device)
        self.finals.drop(torch.cat([self.final[self._flat(part)] for part, _ in self._parts(T)]))
        t, b = torch.nonzero(rollout.ended & rollout.valid, as_tuple=True)
        if len(t):
            final[t.to(self.device), b.to(self.device)] = self.finals.put(rollout.final_frames[t, b])
        for ring, block in self._parts(T):
            cells = self._flat(ring)
            self.frames[cells] = rollout.frames[S - 1 + block.start : S - 1 + block.stop].flatten(0, 1).to(self.device)
            self.age[cells] = rollout.age[block].flatten().to(self.device)
            self.action[cells] = rollout.action[block].flatten().to(self.device, self.action.dtype)
            self.reward[cells] = rollout.reward[block].flatten().to(self.device)
            self.flags[cells] = flags[block].flatten().to(self.device, torch.uint8)
            self.final[cells] = final[block].flatten()
        self.cursor += T
        self.mark(self.cursor - self.returns.n - T, self.cursor - self.returns.n)

    def mark(self, low: int, high: int) -> None:
        """Mark the cells of rows [low, high) that can be drawn. The n steps of these rows are known by now."""
        low = max(low, self.oldest)
        if high > low:
            self._mark(low, high)
        low, high = self.eligible
        at, end = low % self.L, low % self.L + high - low
        self.refused = int(self._refused[at : min(end, self.L)].sum() + self._refused[: max(0, end - self.L)].sum())

    def _mark(self, low: int, high: int) -> None:
        row = torch.arange(low, high, device=self.device)
        cells = row[:, None] * self.B + torch.arange(self.B, device=self.device)
        good = torch.ones_like(cells, dtype=torch.bool)
        goes_on = torch.ones_like(good)
        for k in range(self.returns.n):
            at, after = self.at(cells + k * self.B), self.at(cells + (k + 1) * self.B)
            flags = self.flags[at]
            # an episode begins although none has ended: a worker was replaced, and the next observation is unknown
            whole = ((flags & VALID) > 0) & (((flags & ENDED) > 0) | (self.age[after] > 0))
            good &= ~goes_on | whole
            goes_on &= (flags & (TERMINATED | ENDED)) == 0
        at = self.at(cells)
        self.flags[at] = (self.flags[at] & ~SAMPLEABLE) | (good * SAMPLEABLE).to(torch.uint8)
        self._refused[(row % self.L).cpu()] = (~good).sum(1).cpu()

    def _parts(self, T: int) -> list[tuple[slice, slice]]:
        """Return (rows of the ring, rows of the rollout) of each block, for T rows from the cursor on."""
        at = self.cursor % self.L
        first = min(T, self.L - at)
        parts = [(slice(at, at + first), slice(0, first))]
        return parts if first == T else [*parts, (slice(0, T - first), slice(first, T))]

    def _flat(self, rows: slice) -> slice:
        return slice(rows.start * self.B, rows.stop * self.B)

    # -- reading ------------------------------------------------------------

    def batch(self, cell: Tensor, weight: Tensor | None = None) -> ReplayBatch:
        """Build the batch of transitions that begin at cells [N], which must be sampleable.

        weight [N]: importance weights; None: 1. Does not synchronise a GPU.
        """
        weight = torch.ones(len(cell), device=self.device) if weight is None else weight
        r_t, discount, goes_on = self._step(cell)
        last = cell  # the step after which the transition ends
        for k in range(1, self.returns.n):
            step = cell + k * self.B
            reward, more, then_goes_on = self._step(step)
            # torch.where, not a product: a cell after the episode may hold NaN
            r_t = r_t + torch.where(goes_on, discount * reward, 0)
            last = torch.where(goes_on, step, last)
            discount = torch.where(goes_on, discount * more, discount)
            goes_on = goes_on & then_goes_on
        obs_tm1, obs_t = self._observations(cell, last)
        action = self.action[self.at(cell)].long()
        return ReplayBatch(obs_tm1, action, r_t, discount, obs_t, weight, cell)

    def _step(self, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return (clipped reward, discount, whether the return continues) of single steps, [N] each."""
        at, returns = self.at(cell), self.returns
        reward, flags = self.reward[at], self.flags[at]
        if returns.reward_clip:
            reward = reward.clamp(-returns.reward_clip, returns.reward_clip)
        discount = returns.gamma * ((flags & TERMINATED) == 0).float()
        return reward, discount, (flags & (TERMINATED | ENDED)) == 0

    def _observations(self, cell: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """Return the observations before the steps `cell` [N] and after the steps `last` [N]."""
        S, B = self.spec.stack, self.B
        age = self.age[self.at(cell)]
        final = self.final[self.at(last)]
        ended = final >= 0
        if S == 1:
            obs_tm1, obs_t = self._take(cell), self._take(last + B)
            self._show_finals(obs_t, ended, final)
            return obs_tm1, obs_t
        back = self._lags * B
        if self.returns.n == 1:  # both observations lie in one window of S + 1 frames
            window = self._take(torch.cat([cell[:, None] - back, (cell + B)[:, None]], 1))
            self._forget(window[:, :S], age)
            obs_tm1, obs_t = window[:, :S], window[:, 1:]
        else:
            both = self._take(torch.stack([cell, last + B])[..., None] - back)
            obs_tm1, obs_t = both[0], both[1]
            self._forget(obs_tm1, age)
            self._forget(obs_t, self.age[self.at(last)].long() + 1)
        self._show_finals(obs_t[:, -1], ended, final)
        return obs_tm1, obs_t

    def _take(self, cell: Tensor) -> Tensor:
        """Return the frames [..., *frame_shape] of cells [...]."""
        # index_select copies whole frames; indexing with a tensor copies single bytes
        return self.frames.index_select(0, self.at(cell).flatten()).view(*cell.shape, *self.frames.shape[1:])

    def _forget(self, obs: Tensor, age: Tensor) -> None:
        """Zero, in place, the frames from before the episode. obs [N, S, ...], age [N]."""
        before = self._lags > age[:, None]
        if obs.is_cuda:
            obs.mul_((~before).to(obs.dtype).view(*before.shape, *[1] * (obs.dim() - 2)))
            return
        n, lag = before.nonzero(as_tuple=True)
        if len(n):
            obs[n, lag] = 0

    def _show_finals(self, newest: Tensor, ended: Tensor, final: Tensor) -> None:
        """Replace the next episode's first frame by the last frame of an ended episode, in place.

        newest [N, *frame_shape]: newest frames; ended [N] bool; final [N]: slots of the last frames.
        """
        if newest.is_cuda:
            frames = self.finals.frames[final.clamp(min=0).long()]
            newest.copy_(torch.where(ended.view(-1, *[1] * (newest.dim() - 1)), frames, newest))
            return
        i = ended.nonzero().squeeze(-1)
        if len(i):
            newest[i] = self.finals.frames[final[i].long()]


def bytes_per_transition(spec: EnvSpec) -> float:
    """Bytes of a ring per transition, with reserved final frames and without the memory of prioritization."""
    frame = math.prod(spec.frame_shape) * getattr(torch, spec.frame_dtype).itemsize
    return frame * (1 + 1 / STEPS_PER_FINAL) + 1 + (1 if spec.n_actions <= 256 else 2) + 4 + 1 + 4
