"""This module defines a batch of transitions from a replay."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(slots=True)
class ReplayBatch:
    """A `ReplayBatch` has N transitions over n steps, in the notation of rlax. A transition starts at obs_tm1 with
    action a_tm1, has the return r_t, and ends at obs_t.

    `obs_tm1` and `obs_t` are [N, S, *frame_shape] ([N, *frame_shape] without a stack), with the dtype of the replay.
    `a_tm1` [N] int64 are the actions.
    `r_t` [N] is the return r_1 + gamma r_2 + ..., a sum of at most n rewards up to the end of the episode.
    `discount_t` [N] is gamma^n, or gamma^k if a time limit cut the episode after k steps (obs_t is then the episode's
    last observation). `discount_t` is 0 if the episode ended, or a life whose loss counts as an end.
    `weight` [N] is the sample's importance weight in the loss, which is 1 if all samples are equally likely.
    `cell` [N] int64, on the replay's device, is the index t * B + b of the transition among all transitions of the run.
    """

    obs_tm1: Tensor
    a_tm1: Tensor
    r_t: Tensor
    discount_t: Tensor
    obs_t: Tensor
    weight: Tensor
    cell: Tensor
