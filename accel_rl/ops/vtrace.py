"""V-trace computes value targets and advantages of a policy from actions of an older policy."""

from typing import NamedTuple

import torch
from torch import Tensor


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
    next_value = V(x_{t+1}) are [T, B]. `cut` [T, B] bool is true at time limits, where x_{t+1} is not the next row, so
    v_{t+1} is V(x_{t+1}). With pi = mu and lambda 1 the targets are the n-step returns, and the advantages are those of
    A2C.
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
    # The difference v_{t+1} - V(x_{t+1}) is 0 past the end.
    following = torch.cat([excess[1:], torch.zeros_like(excess[:1])])
    if cut is not None:
        following = following * (~cut).to(following.dtype)
    advantage = rho * (reward + discount * (next_value + following) - value)
    return VTrace(value + excess, advantage)
