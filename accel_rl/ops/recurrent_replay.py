"""The equations of recurrent replay (Kapturowski et al. 2019, R2D2, section 2.3). Sequences are time-major [T, N]."""

import torch
from torch import Tensor


def rescaled(x: Tensor, epsilon: float) -> Tensor:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x (Pohlen et al. 2018, arXiv:1805.11593, proposition A.2), or x with
    epsilon 0."""
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + epsilon * x if epsilon else x


def unscaled(x: Tensor, epsilon: float) -> Tensor:
    """The inverse of `rescaled`: sign(x) (y^2 - 1) with y = (sqrt(1 + z) - 1) / (2 epsilon) and z = 4 epsilon (|x| + 1
    + epsilon). y is computed as a quotient, because the difference of nearly equal numbers would lose digits."""
    if not epsilon:
        return x
    size = x.abs() + 1 + epsilon
    y = 2 * size / ((1 + 4 * epsilon * size).sqrt() + 1)
    return x.sign() * (y - 1) * (y + 1)


def n_step_return(reward: Tensor, discount: Tensor, next_value: Tensor, ends: Tensor, n: int) -> Tensor:
    """r_t + gamma r_{t+1} + ... + gamma^n V(s_{t+n}) [T - n + 1, N] of the first T - n + 1 steps. Where `ends` [T, N]
    bool is true, the return does not continue after the step. `reward`, `discount` (gamma, or 0 at a termination) and
    `next_value` (the value V(s_{t+1}) of the observation after each step) are [T, N]."""
    steps = len(reward) - n + 1
    total = torch.zeros_like(reward[:steps])
    value, factor = total, torch.ones_like(total)
    goes_on = torch.ones_like(ends[:steps])
    for k in range(n):
        now = slice(k, k + steps)
        # Steps after the episode's end may contain NaN.
        total = total + torch.where(goes_on, factor * reward[now], 0)
        value = torch.where(goes_on, next_value[now], value)
        factor = torch.where(goes_on, factor * discount[now], factor)
        goes_on = goes_on & ~ends[now]
    return total + torch.where(factor > 0, factor * value, 0)


def mixed_priority(error: Tensor, mask: Tensor, eta: float) -> Tensor:
    """eta max_t |error_t| + (1 - eta) mean_t |error_t| [N] over the steps t where `mask` [T, N] bool is true, or 0 if
    `mask` is false at all steps."""
    size = torch.where(mask, error.abs(), 0)
    return eta * size.amax(0) + (1 - eta) * size.sum(0) / mask.sum(0).clamp(min=1)
