"""Masks of the actions that an environment does not allow in a state. The last n numbers of an observation are the
mask, 1 for each allowed action and 0 for others."""

import torch
from torch import Tensor

LEAST = -1e9
"""The logit or the value of an action that is not allowed. LEAST is finite, so that the logarithm of the action's
probability of 0 is finite."""


def allowed(obs: Tensor, n: int) -> Tensor:
    """The mask [N, n] bool of observations [N, F], which are float32 numbers, or bytes whose last 4 n bytes are float32
    numbers. If the mask allows no action, all actions are allowed."""
    mask = obs[:, -n:] if obs.is_floating_point() else obs[:, -4 * n :].contiguous().view(torch.float32)
    known = mask > 0.5
    return known | ~known.any(-1, keepdim=True)


def masked(x: Tensor, obs: Tensor, n: int) -> Tensor:
    """Logits or values x [N, A] with LEAST for actions that are not allowed, or x itself without a mask (n = 0)."""
    return x.masked_fill(~allowed(obs, n), LEAST) if n else x


def random_allowed(uniform: Tensor, known: Tensor) -> Tensor:
    """Draw an allowed action [N] in each row of the mask `known` [N, n] by random numbers `uniform` [N] in [0, 1)."""
    count = known.sum(-1)
    k = torch.minimum((uniform * count).long(), count - 1)
    return (known.cumsum(-1) <= k.unsqueeze(-1)).sum(-1)
