"""A fully connected layer that leaves its weight's gradient where the flat one lies."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from accel_rl.kernels.activation_cache import Place, place
from accel_rl.kernels.linear_small_batch import linear_small_batch

FEW = range(16, 48)
"""Batch sizes for which a CPU library computes W x' up to 1.5 times as fast as x W', where `linear_small_batch` is not
compiled. Smaller batches use x W', whose rows are bitwise identical for any batch size and number of threads."""


def linear(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor | None = None) -> Tensor:
    """x [N, F], weight [G, F], bias [G] -> [N, G], in `out` if given."""
    result = linear_small_batch(x, weight, bias, out)
    if result is not None:
        return result
    if x.device.type == "cpu" and len(x) in FEW:
        return torch.add(torch.mm(weight, x.t()).t(), bias, out=out)
    return torch.addmm(bias, x, weight.t(), out=out)


class Head(nn.Linear):
    """A network's last layer. While acting, each output row is bitwise identical for any batch size."""

    def forward(self, x: Tensor) -> Tensor:
        out = linear_small_batch(x, self.weight, self.bias) if x.dim() == 2 else None
        return super().forward(x) if out is None else out


class Linear(nn.Linear):
    """nn.Linear for a layer that is wide: most of a small network's parameters are in it, and copying their gradient
    takes a twentieth of an update of 32.

    Where the weight has a `flat_grad` (FlatParameters gives it one), backward writes there, and autograd takes the
    result for `weight.grad` as it is. A weight that the loss depends on twice gets its gradients from autograd.
    """

    uses = 0  # forward passes that a gradient may come back to

    def forward(self, x: Tensor) -> Tensor:
        narrow = torch.is_autocast_enabled(x.device.type) or x.dtype != self.weight.dtype
        if narrow or x.dim() != 2:
            return F.linear(x, self.weight, self.bias)
        kept = place(self, len(x), self.out_features, dtype=x.dtype) if x.device.type == "cpu" else None
        if not hasattr(self.weight, "flat_grad") or not (torch.is_grad_enabled() and self.weight.requires_grad):
            return linear(x, self.weight, self.bias, None if kept is None or kept.known else kept.out)
        self.uses += 1
        out: Tensor = _InPlace.apply(x, self.weight, self.bias, self, kept)
        return out


class _InPlace(torch.autograd.Function):
    """x [N, F], weight [G, F], bias [G] -> [N, G]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, layer: Linear, kept: Place | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        return linear(x, weight, bias) if kept is None else kept.out.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x, weight), layer = ctx.saved_tensors, ctx.layer
        alone, layer.uses = layer.uses == 1 and layer.weight.grad is None, max(layer.uses - 1, 0)
        # a view that nobody else holds: autograd keeps it instead of a copy
        place = layer.weight.flat_grad.view_as(weight) if alone else torch.empty_like(weight)
        torch.mm(grad.t(), x, out=place)
        return grad.mm(weight) if ctx.needs_input_grad[0] else None, place, grad.sum(0), None, None
