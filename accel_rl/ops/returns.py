"""Returns and advantages of time-major rollouts."""

from typing import NamedTuple

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
    """GAE (Schulman et al. 2016, arXiv:1506.02438, eq. 16).

        delta_t = r_t + discount_t V(s_{t+1}) - V(s_t)
        A_t = delta_t + discount_t lambda (1 - cut_t) A_{t+1}

    `reward`, `value`, `discount` and the advantage are [T, B], and `bootstrap` [B] is V(s_T). `discount` is gamma * (1
    - terminated). `next_value` [T, B] has V(s_{t+1}) of all steps. `next_value` is a separate argument, because at a
    time limit s_{t+1} is not the observation in the next row. `cut` [T, B] bool is true at time limits, at which the
    sum of temporal differences stops, although the discount is not zero. With lambda 1 the advantage is the n-step
    return (up to the rollout's end) minus the value.
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
    """The n-step return R_t = r_t + discount_t R_{t+1} up to the end of the rollout (Mnih et al. 2016, section 4).
    `reward`, `discount` and the return are [T, B], and `bootstrap` [B] is V(s_T)."""
    returns = torch.empty_like(reward)
    after = bootstrap
    for t in range(reward.shape[0] - 1, -1, -1):
        after = reward[t] + discount[t] * after
        returns[t] = after
    return returns


class VTrace(NamedTuple):
    """`target` [T, B] are the value targets v_t. `advantage` [T, B] are the advantages of the policy gradient,
    multiplied by rho."""

    target: Tensor
    advantage: Tensor


def vtrace(
    log_ratio: Tensor,
    reward: Tensor,
    discount: Tensor,
    value: Tensor,
    next_value: Tensor,
    *,
    lambda_: float = 1.0,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
    cut: Tensor | None = None,
) -> VTrace:
    """Compute V-trace targets (Espeholt et al. 2018, IMPALA, arXiv:1802.01561, eq. 1 and section 4.2).

        rho_t = min(rho_clip, pi/mu);  c_t = lambda min(c_clip, pi/mu)
        delta_t = rho_t (r_t + discount_t V(x_{t+1}) - V(x_t))
        v_t = V(x_t) + delta_t + discount_t c_t (v_{t+1} - V(x_{t+1}))
        advantage_t = rho_t (r_t + discount_t v_{t+1} - V(x_t))

    The arguments log_ratio = log pi(a|x) - log mu(a|x), reward, discount = gamma * (1 - terminated), value and
    next_value = V(x_{t+1}) are [T, B]. `cut` [T, B] bool is true at time limits, where x_{t+1} is not the observation
    in the next row, so v_{t+1} is V(x_{t+1}). With pi = mu and lambda 1 the targets are the n-step returns, and the
    advantages are those of A2C.
    """
    ratio = log_ratio.exp()
    rho, c = ratio.clamp(max=rho_clip), lambda_ * ratio.clamp(max=c_clip)
    delta = rho * (reward + discount * next_value - value)
    carry = discount * c
    if cut is not None:
        carry = carry * (~cut).to(carry.dtype)
    excess = torch.empty_like(value)  # `excess` is v_t - V(x_t), the target minus the value.
    after = torch.zeros_like(value[0])
    for t in range(value.shape[0] - 1, -1, -1):
        after = delta[t] + carry[t] * after
        excess[t] = after
    # After the rollout's last step, the difference v_{t+1} - V(x_{t+1}) is 0.
    following = torch.cat([excess[1:], torch.zeros_like(excess[:1])])
    if cut is not None:
        following = following * (~cut).to(following.dtype)
    advantage = rho * (reward + discount * (next_value + following) - value)
    return VTrace(value + excess, advantage)
