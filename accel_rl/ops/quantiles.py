"""The loss of quantile regression (Dabney et al. 2018, arXiv:1710.10044; Dabney et al. 2018, arXiv:1806.06923)."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def midpoints(n: int, device: torch.device) -> Tensor:
    """(2 i + 1) / (2 n) [n], the midpoints of n equal intervals of (0, 1) (Dabney et al. 2018, lemma 2)."""
    return (torch.arange(n, device=device) + 0.5) / n


def quantile_huber(target: Tensor, quantiles: Tensor, tau: Tensor, kappa: float) -> Tensor:
    """Return sum_i E_j |tau_i - 1{u_ij < 0}| L(u_ij) / kappa [N], where u_ij = target_j - quantile_i, and L is the
    Huber loss with threshold kappa. If kappa is 0, L / kappa is replaced by |u| (Dabney et al. 2018, arXiv:1710.10044,
    eq. 8 to 10). `target` is [N, M] and has no gradient, `quantiles` is [N, Z], and their fractions `tau` are [Z] or
    [N, Z]."""
    loss: Tensor = _QuantileHuber.apply(quantiles, target.detach(), tau, kappa)
    return loss


class _QuantileHuber(torch.autograd.Function):
    """The targets around a quantile q, in ascending order, form four ranges, which begin at -inf, q - kappa, q and
    q + kappa. In each range, the loss is a polynomial of q whose coefficients are the range's number of targets, their
    sum and the sum of their squares. With the targets' cumulative sums, M targets and Z quantiles take O((M + Z) log M)
    operations instead of M Z."""

    @staticmethod
    def forward(ctx: Any, quantiles: Tensor, target: Tensor, tau: Tensor, kappa: float) -> Tensor:
        M = target.shape[-1]
        # Differences of cumulative sums are exact enough only in float64.
        q, y = quantiles.double(), target.double().sort(-1).values
        ends = torch.searchsorted(y, torch.cat([q - kappa, q], -1)), torch.searchsorted(y, q + kappa, right=True)
        far, near, above = *ends[0].chunk(2, -1), ends[1]
        sums, squares = (F.pad(x.cumsum(-1), (1, 0)) for x in (y, y.square()))
        first = [sums.gather(-1, end) for end in (far, near, above)]
        second = [squares.gather(-1, end) for end in (far, near, above)]
        slopes, losses = [], []
        for low, high in ((0, 1), (1, 2)):
            n, total, square = (x[high] - x[low] for x in ((far, near, above), first, second))
            slopes.append((q * n - total) / (kappa or 1.0))
            losses.append((square - 2 * q * total + q.square() * n) / (2 * kappa or 1.0))
        beyond = M - above
        slope = (1 - tau) * (far + slopes[0]) + tau * (slopes[1] - beyond)
        ctx.save_for_backward((slope / M).to(quantiles.dtype))
        losses[0] += far * (q - kappa / 2) - first[0]
        losses[1] += sums[:, -1:] - first[2] - beyond * (q + kappa / 2)
        return (((1 - tau) * losses[0] + tau * losses[1]).sum(-1) / M).to(quantiles.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (slope,) = ctx.saved_tensors
        return grad[:, None] * slope, None, None, None
