"""The arrays of the replay's ring buffer, and the torch operations that gather transitions from the arrays."""

from typing import NamedTuple

import torch
from torch import Tensor

TERMINATED, ENDED, VALID, SAMPLEABLE = 1, 2, 4, 8  # bits of `flags`
Gathered = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""The fields obs_tm1, obs_t, r_t, discount_t and a_tm1 of a `ReplayBatch`."""


class RingArrays(NamedTuple):
    """The arrays of a ring buffer with `size` cells, and the settings of n-step returns (`replays.returns`). A cell is
    one step of one environment, and each row has B cells. Cell c is at index c modulo `size`, and cell c + B is the
    next step of the same environment."""

    frames: Tensor
    """[size, *frame_shape]: the newest frame of the observation before each step."""
    finals: Tensor
    """[slots, *frame_shape]: the last frames of episodes."""
    age: Tensor
    """[size] uint8: the number of steps since the episode's first frame, up to a maximum."""
    action: Tensor
    """[size] uint8 or int16."""
    reward: Tensor
    """[size] float32, not clipped."""
    flags: Tensor
    """[size] uint8 with the bits TERMINATED, ENDED, VALID and SAMPLEABLE."""
    final: Tensor
    """[size] int32: where an episode ended, the slot of its last frame in `finals`, and otherwise a negative number."""
    B: int
    stack: int
    n: int
    gamma: float
    reward_clip: float

    def position_of(self, cell: Tensor) -> Tensor:
        """Return the indices of cells [...] in the arrays."""
        return cell % len(self.flags)


def gather(ring: RingArrays, cell: Tensor, may_overlap: bool = False) -> Gathered:
    """Return the n-step transitions that begin at cells [N], without synchronizing with a GPU. The cells must have the
    flag SAMPLEABLE. If `may_overlap` is true, obs_tm1 and obs_t may be views of the same memory, so that fewer frames
    are copied."""
    r_t, discount, goes_on = _step(ring, cell)
    last = cell  # `last` is the last step of the transition.
    for k in range(1, ring.n):
        step = cell + k * ring.B
        reward, more, then_goes_on = _step(ring, step)
        # Cells (stored steps) after the episode's end may contain NaN.
        r_t = r_t + torch.where(goes_on, discount * reward, 0)
        last = torch.where(goes_on, step, last)
        discount = torch.where(goes_on, discount * more, discount)
        goes_on = goes_on & then_goes_on
    obs_tm1, obs_t = _observations(ring, cell, last, may_overlap)
    return obs_tm1, obs_t, r_t, discount, ring.action[ring.position_of(cell)].long()


def _step(ring: RingArrays, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return (clipped reward, discount, whether the episode continues) for the steps in cells [N]."""
    position = ring.position_of(cell)
    reward, flags = ring.reward[position], ring.flags[position]
    if ring.reward_clip:
        reward = reward.clamp(-ring.reward_clip, ring.reward_clip)
    discount = ring.gamma * ((flags & TERMINATED) == 0).float()
    return reward, discount, (flags & (TERMINATED | ENDED)) == 0


def _observations(ring: RingArrays, cell: Tensor, last: Tensor, may_overlap: bool) -> tuple[Tensor, Tensor]:
    """Return the observations before the steps `cell` [N] and after the steps `last` [N]."""
    S, B = ring.stack, ring.B
    final = ring.final[ring.position_of(last)]
    if S == 1:
        obs_tm1, obs_t = _take(ring, cell), _take(ring, last + B)
        _show_finals(ring, obs_t, final)
        return obs_tm1, obs_t
    age = ring.age[ring.position_of(cell)]
    lags = torch.arange(S - 1, -1, -1, device=cell.device)  # The oldest frame of a stack comes first.
    back = lags * B
    if may_overlap and ring.n == 1:  # obs_tm1 and obs_t are parts of one window of S + 1 frames.
        window = _take(ring, torch.cat([cell[:, None] - back, (cell + B)[:, None]], 1))
        _forget(window[:, :S], lags, age)
        obs_tm1, obs_t = window[:, :S], window[:, 1:]
    else:
        obs_tm1, obs_t = _take(ring, cell[:, None] - back), _take(ring, (last + B)[:, None] - back)
        _forget(obs_tm1, lags, age)
        _forget(obs_t, lags, ring.age[ring.position_of(last)].long() + 1)
    _show_finals(ring, obs_t[:, -1], final)
    return obs_tm1, obs_t


def _take(ring: RingArrays, cell: Tensor) -> Tensor:
    """Return the frames [..., *frame_shape] of cells [...]."""
    # index_select copies whole frames, while indexing copies single bytes.
    return ring.frames.index_select(0, ring.position_of(cell).flatten()).view(*cell.shape, *ring.frames.shape[1:])


def _forget(obs: Tensor, lags: Tensor, age: Tensor) -> None:
    """Set those frames of `obs` [N, S, ...] to zero that are from before the episode: their lag [S] (steps before the
    newest frame) exceeds the age [N]."""
    before = lags > age[:, None]
    if not obs.is_cpu:  # `nonzero` would synchronize with the GPU.
        obs.masked_fill_(before.view(*before.shape, *[1] * (obs.dim() - 2)), 0)
        return
    n, lag = before.nonzero(as_tuple=True)
    if len(n):
        obs[n, lag] = 0


def _show_finals(ring: RingArrays, newest: Tensor, final: Tensor) -> None:
    """Where an episode ended, replace the newest frame, which is the next episode's first frame, by the ended episode's
    last frame. `newest` [N, *frame_shape] are the newest frames, and `final` [N] are the slots of last frames in
    `finals`."""
    ended = final >= 0
    if not newest.is_cpu:
        frames = ring.finals.index_select(0, final.clamp(min=0))
        newest.copy_(torch.where(ended.view(-1, *[1] * (newest.dim() - 1)), frames, newest))
        return
    i = ended.nonzero().squeeze(-1)
    if len(i):
        newest[i] = ring.finals[final[i].long()]


def empty(ring: RingArrays, cell: Tensor) -> Gathered:
    """Allocate the results of `gather` for cells [N]."""
    N, frame_shape = len(cell), ring.frames.shape[1:]
    shape = (N, *frame_shape) if ring.stack == 1 else (N, ring.stack, *frame_shape)
    obs_tm1, obs_t = ring.frames.new_empty(shape), ring.frames.new_empty(shape)
    r_t, discount_t = ring.reward.new_empty(N), ring.reward.new_empty(N)
    return obs_tm1, obs_t, r_t, discount_t, cell.new_empty(N)
