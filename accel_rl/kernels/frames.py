"""Gather stacks of frames from a sequence in which each frame is stored once."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.native import call

WORD = 8  # Bytes per machine word


@dataclass(frozen=True, slots=True, eq=False)
class FrameStacks:
    """Stacked observations, given by the positions of their frames instead of copies.

    `frames` are [R, B, *frame_shape], `t` and `b` [N] int64, and `age` [N] uint8, as in `gather_stacks`. Some network
    layers accept a FrameStacks instead of a tensor [N, stack, *frame_shape], and read the frames in place; other layers
    call `gather`.
    """

    frames: Tensor
    t: Tensor
    b: Tensor
    age: Tensor
    stack: int

    def gather(self) -> Tensor:
        return gather_stacks(self.frames, self.t, self.b, self.age, self.stack)

    def __len__(self) -> int:
        return len(self.t)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.t), self.stack, *self.frames.shape[2:]

    @property
    def has_whole_frames(self) -> bool:
        """Whether each frame is contiguous in host memory."""
        return self.frames.device.type == "cpu" and self.frames[0, 0].is_contiguous()

    def arguments(self) -> tuple[Tensor | int, ...]:
        """Return the arguments by which a compiled kernel locates the frames: frames, the strides of R and B in bytes,
        t, b, age."""
        size = self.frames.element_size()
        return self.frames, self.frames.stride(0) * size, self.frames.stride(1) * size, self.t, self.b, self.age


def gather_stacks(frames: Tensor, t: Tensor, b: Tensor, age: Tensor, stack: int) -> Tensor:
    """Gather the `stack` newest frames, the oldest first, into observations [N, stack, *frame_shape] ([N, *frame_shape]
    if `stack` is 1).

    The newest frame of the observation at step t [N] of environment b [N] is in row t + stack - 1 of `frames` [R, B,
    *frame_shape]. `age` [N] uint8 is the number of steps since the episode's first frame, up to a maximum. Frames from
    before the episode are replaced by zeros.
    """
    if stack == 1:
        return frames[t, b]
    stacks = FrameStacks(frames, t.long().contiguous(), b.long().contiguous(), age.to(torch.uint8).contiguous(), stack)
    module = native.compiled() if stacks.has_whole_frames else None
    if module is None:
        return _gather(stacks)
    out = frames.new_empty(stacks.shape)
    frame_bytes = frames[0, 0].nbytes
    call(module, "gather_stacks", len(t), stack, frame_bytes, *stacks.arguments(), out, torch.get_num_threads())
    return out


def _gather(stacks: FrameStacks) -> Tensor:
    """Gather without synchronizing with a GPU. On a GPU, frames are copied in words of 8 bytes if possible."""
    frames = stacks.frames
    S = stacks.stack
    N = len(stacks.t)
    lags = torch.arange(S, device=frames.device)  # Position of a frame in its stack; 0 is the oldest frame
    before_episode = (S - 1 - lags) > stacks.age.long()[:, None]
    words = _words(frames)
    if words is None:
        obs = frames[stacks.t[:, None] + lags, stacks.b[:, None]]
        return obs.masked_fill_(before_episode.view(N, S, *[1] * (obs.dim() - 2)), 0)
    row = (stacks.t[:, None] + lags) * frames.shape[1] + stacks.b[:, None]
    chosen = words.index_select(0, row.view(-1)).view(N, S, -1)
    return chosen.masked_fill_(before_episode[..., None], 0).view(frames.dtype).view(stacks.shape)


def _words(frames: Tensor) -> Tensor | None:
    """Return a view of frames [R, B, *frame_shape] as words [R * B, words per frame], or None if this is impossible."""
    size = frames[0, 0].nbytes
    if not frames.is_contiguous() or size % WORD or frames.storage_offset() * frames.element_size() % WORD:
        return None
    return frames.view(frames.shape[0] * frames.shape[1], -1).view(torch.int64)


def window_stacks(frames: Tensor, age: Tensor, t: int, T: int, b: slice, stack: int) -> FrameStacks:
    """Return the observations [T * n, stack, *frame_shape] at steps t .. t + T - 1 of the environments b, from frames
    [R, B, *frame_shape] and age [.., B]."""
    cells = _cells(T, *b.indices(frames.shape[1]), frames.device)
    return FrameStacks(frames[t:], *cells, age[t : t + T, b].flatten(), stack)


# The indices are cached, because every rollout needs the same indices.
@functools.lru_cache(1024)
def _cells(T: int, start: int, stop: int, step: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the indices (t, b), [T * n] each, of the first T steps of environments start .. stop - 1."""
    rows, columns = torch.arange(T, device=device), torch.arange(start, stop, step, device=device)
    return rows.repeat_interleave(len(columns)), columns.repeat(T)
