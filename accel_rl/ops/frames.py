"""Stacks of frames by index arithmetic over a sequence in which each frame is stored once."""

import torch
from torch import Tensor


def gather_stacks(frames: Tensor, t: Tensor, b: Tensor, age: Tensor, stack: int) -> Tensor:
    """The observation at each cell: the `stack` newest frames, oldest first.

    frames [R, B, *frame_shape]; cell (t [N], b [N]) has its newest frame in row t + stack - 1; age [N] is the number of
    steps since the episode's first frame (saturating). -> [N, stack, *frame_shape], with zeros for frames from before
    the episode. With stack 1: [N, *frame_shape].
    """
    if stack == 1:
        return frames[t, b]
    lags = torch.arange(stack, device=frames.device)  # row t + lag; lag stack - 1 is the newest
    obs = frames[t[:, None] + lags, b[:, None]]
    before_episode = (stack - 1 - lags) > age.long()[:, None]
    if frames.is_cuda:  # no synchronisation there
        return obs * (~before_episode).to(obs.dtype).view(*before_episode.shape, *[1] * (obs.dim() - 2))
    if before_episode.any():
        obs[before_episode] = 0
    return obs
