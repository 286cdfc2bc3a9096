"""Policy-gradient losses for categorical policies."""

from collections.abc import Callable

import torch
from torch import Tensor


def log_prob(logits: Tensor, action: Tensor) -> Tensor:
    """log pi(a | s) [...] of action [...] int64 by logits [..., A]."""
    return torch.log_softmax(logits, -1).gather(-1, action.unsqueeze(-1)).squeeze(-1)


def entropy(logits: Tensor) -> Tensor:
    """H(pi) = -sum_a pi(a) log pi(a) [...], in nats, of logits [..., A]."""
    logp = torch.log_softmax(logits, -1)
    return -(logp.exp() * logp).sum(-1)


def mean_over(valid: Tensor | None) -> Callable[[Tensor], Tensor]:
    """A function that computes the mean [] of x [...] over the elements where `valid` [...] bool is true, or over all
    elements if `valid` is None. If no element is valid, the mean is zero.

    An invalid element of x may be NaN, because the mean and its gradient with respect to x are still finite. The
    gradient with respect to the inputs of x would be zero times NaN, which is NaN, so `finite_where_invalid` must be
    applied to the inputs of x.
    """
    if valid is None:
        return torch.mean
    invalid, count = ~valid, valid.sum().clamp(min=1)
    # A product with `valid` would not remove NaN, because NaN times zero is NaN.
    return lambda x: x.masked_fill(invalid, 0).sum() / count


def explained_variance(value: Tensor, target: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
    """The fraction [] of the variance of the value targets [...] that the values [...] explain, 1 - Var(target - value)
    / Var(target), or zero if the targets are constant. The fraction is at most 1, and negative if the values are worse
    predictions than the targets' mean. `mean` computes the mean over the valid elements (`mean_over`)."""
    error = target - value
    variance, unexplained = (mean((x - mean(x)).square()) for x in (target, error))
    return torch.where(variance > 0, 1 - unexplained / variance, 0.0)


def finite_where_invalid(x: Tensor, valid: Tensor | None) -> Tensor:
    """Replace the non-finite numbers of x [..., *] by zero where `valid` [...] bool is false. If `valid` is None, all
    elements are valid. A NaN in a valid element is not replaced, because it must be reported."""
    if valid is None or not x.is_floating_point():
        return x
    cells = valid.view(*valid.shape, *[1] * (x.dim() - valid.dim()))
    return torch.where(cells | x.isfinite(), x, torch.zeros_like(x))


def sampled_kl(log_ratio: Tensor) -> Tensor:
    """An unbiased estimate of KL(old || new) [...], in nats, from log pi_new(a|s) - log pi_old(a|s) [...] of actions of
    the old policy. The estimate ratio - 1 - log ratio is never negative (Schulman 2020, "Approximating KL
    divergence")."""
    return torch.expm1(log_ratio) - log_ratio


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip: float | Tensor) -> Tensor:
    """PPO's objective, which is maximised (Schulman et al. 2017, arXiv:1707.06347, eq. 7).

    The objective [...] is min(rho A, clip(rho, 1 - clip, 1 + clip) A), where rho = pi(a|s) / pi_old(a|s) is the ratio,
    and A is the advantage.
    """
    objective = ratio * advantage
    bound = ratio.detach().clamp(1 - clip, 1 + clip) * advantage  # type: ignore[arg-type]
    # Where the bound is smaller than the objective, the ratio is clipped, and the bound's gradient is zero. With
    # torch.minimum, the backward pass would launch nine more kernels.
    return torch.where(bound < objective, bound, objective)


def clipped_value_error(value: Tensor, old_value: Tensor, target: Tensor, clip: float) -> Tensor:
    """max((V - R)^2, (V_old + clip(V - V_old, -clip, clip) - R)^2), as in OpenAI baselines. All arguments have the
    shape [...], and the error has no factor 1/2."""
    near = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum((value - target).square(), (near - target).square())


def sample_categorical(logits: Tensor, uniform: Tensor) -> Tensor:
    """Draw actions [N] int64 from logits [N, A] by inverting the cumulative distribution function at `uniform` [N] in
    [0, 1)."""
    cdf = torch.softmax(logits, -1).cumsum(-1)
    # If rounding makes the last entry of `cdf` smaller than `uniform`, the last action is drawn.
    return (cdf <= uniform.unsqueeze(-1)).sum(-1).clamp_(max=logits.shape[-1] - 1)
