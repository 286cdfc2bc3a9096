"""Stacks of frames by index arithmetic over a sequence in which each frame is stored once."""

import functools

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.call_graph import call


def gather_stacks(frames: Tensor, t: Tensor, b: Tensor, age: Tensor, stack: int) -> Tensor:
    """The observation at each cell: the `stack` newest frames, oldest first.

    frames [R, B, *frame_shape]; cell (t [N], b [N]) has its newest frame in row t + stack - 1; age [N] uint8 is the
    number of steps since the episode's first frame (saturating). -> [N, stack, *frame_shape], with zeros for frames
    from before the episode. With stack 1: [N, *frame_shape].
    """
    if stack == 1:
        return frames[t, b]
    obs = _gather_compiled(frames, t, b, age, stack)
    if obs is None:
        obs = _forget(torch.stack([frames[t + lag, b] for lag in range(stack)], 1), age)
    return obs


def window_stacks(frames: Tensor, age: Tensor, t: int, T: int, b: slice, stack: int) -> Tensor:
    """The observations of T successive steps of neighbouring environments: what `gather_stacks` gives.

    frames [R, B, *frame_shape], age [.., B]; steps t .. t + T - 1 of environments b -> [T * n, stack, *frame_shape],
    time-major.
    """
    if stack == 1:
        return frames[t : t + T, b].flatten(0, 1)
    cells = _cells(T, *b.indices(frames.shape[1]), frames.device)
    return gather_stacks(frames[t:], *cells, age[t : t + T, b].flatten(), stack)


@functools.lru_cache(1024)  # the same ones in each rollout; to put them together takes as long as copying a few stacks
def _cells(T: int, start: int, stop: int, step: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """(t, b) [T * n] each, of the first T steps."""
    rows, columns = torch.arange(T, device=device), torch.arange(start, stop, step, device=device)
    return rows.repeat_interleave(len(columns)), columns.repeat(T)


def _forget(obs: Tensor, age: Tensor) -> Tensor:
    """Zeros, in place, for the frames from before the episode. obs [N, stack, ...], age [N]. Nothing waits for it."""
    stack = obs.shape[1]
    lags = torch.arange(stack, device=obs.device)  # lag stack - 1 is the newest frame
    before_episode = (stack - 1 - lags) > age.long()[:, None]
    return obs.masked_fill_(before_episode.view(*before_episode.shape, *[1] * (obs.dim() - 2)), 0)


def _gather_compiled(frames: Tensor, t: Tensor, b: Tensor, age: Tensor, stack: int) -> Tensor | None:
    """See ops/frames.py. None where it is not compiled, or for frames that are not on the host in one piece each."""
    whole = frames.device.type == "cpu" and frames[0, 0].is_contiguous()
    module = native.compiled() if whole else None
    if module is None:
        return None
    size, each = frames.element_size(), frames[0, 0].nbytes
    out = frames.new_empty(len(t), stack, *frames.shape[2:])
    t, b, age = t.long().contiguous(), b.long().contiguous(), age.to(torch.uint8).contiguous()
    strides = frames.stride(0) * size, frames.stride(1) * size
    call(module, "gather_stacks", len(t), stack, each, frames, *strides, t, b, age, out, torch.get_num_threads())
    return out
