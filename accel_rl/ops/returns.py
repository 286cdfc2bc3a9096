"""Returns and advantages over a rollout are time-major."""

import torch
from torch import Tensor


def generalized_advantage(
    reward: Tensor,
    value: Tensor,
    discount: Tensor,
    bootstrap: Tensor,
    next_value: Tensor | None = None,
    lambda_: float | Tensor = 1.0,
    cut: Tensor | None = None,
) -> Tensor:
    """Compute generalized advantage estimation (GAE; Schulman et al. 2016, arXiv:1506.02438, eq. 16).

        delta_t = r_t + discount_t V(s_{t+1}) - V(s_t)
        A_t = delta_t + discount_t lambda (1 - cut_t) A_{t+1}

    `reward`, `value`, `discount` and the advantage are [T, B], and `bootstrap` [B] is V(s_T). `discount` is gamma * (1
    - terminated). At a time limit s_{t+1} is not the next row. Therefore `next_value` [T, B] has V(s_{t+1}) of all
    steps, and `cut` [T, B] bool is true at time limits. At a cut the sum of temporal differences stops although the
    discount is not zero. With lambda 1 the advantage is the n-step return (up to the rollout's end) minus the value.
    """
    if next_value is None:
        next_value = torch.cat([value[1:], bootstrap[None]])
    delta = reward + discount * next_value - value
    carry = discount * lambda_
    if cut is not None:
        carry = carry * (~cut).to(carry.dtype)
    advantage = torch.empty_like(delta)
    after = torch.zeros_like(bootstrap)
    for t in range(delta.shape[0] - 1, -1, -1):
        after = delta[t] + carry[t] * after
        advantage[t] = after
    return advantage


def discounted_return(reward: Tensor, discount: Tensor, bootstrap: Tensor) -> Tensor:
    """Return the n-step return R_t = r_t + discount_t R_{t+1} up to the end of the rollout (Mnih et al. 2016, section
    4). `reward`, `discount` and the return are [T, B], and `bootstrap` [B] is V(s_T)."""
    returns = torch.empty_like(reward)
    after = bootstrap
    for t in range(reward.shape[0] - 1, -1, -1):
        after = reward[t] + discount[t] * after
        returns[t] = after
    return returns
