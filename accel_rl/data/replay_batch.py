"""A batch of transitions drawn from a replay."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(slots=True)
class ReplayBatch:
    """N transitions over n steps, in the notation of rlax: from obs_tm1 by a_tm1, through the return r_t, to obs_t.

    obs_tm1, obs_t [N, S, *frame_shape] ([N, *frame_shape] without a stack), as stored.
    a_tm1 [N] int64.
    r_t [N]: r_1 + gamma r_2 + ... of at most n steps, up to the end of the episode.
    discount_t [N]: gamma^n, or gamma^k where a time limit struck after k steps (obs_t is what was seen there); 0 where
    the episode, or a life that counts as one, ended.
    weight [N]: of each sample in the loss, importance sampling; 1 where all are equally likely.
    cell [N] int64, on the replay's device: which transition of the run it is, t * B + b, counted from its first step.
    """

    obs_tm1: Tensor
    a_tm1: Tensor
    r_t: Tensor
    discount_t: Tensor
    obs_t: Tensor
    weight: Tensor
    cell: Tensor
