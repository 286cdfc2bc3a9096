"""Fully connected layers. The gradient of a layer's weight can be written directly into the flat gradient."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from accel_rl.kernels import native
from accel_rl.kernels.native import call

MAX_ROWS = 64  # Maximum number of rows (batch size) for the kernel in linear_small_batch.h
MIN_COLUMNS = 256  # For layers with fewer than 256 inputs, torch's CPU library is as fast as the kernel.


def linear_small_batch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor | None:
    """Return x [N, F] times the transpose of weight [G, F], plus bias [G], as [N, G], or None if the kernel does not
    support the arguments.

    Each output row is bitwise identical for any batch size and number of threads. The kernel requires that N is at most
    64, that F is at least 256 and a multiple of 16, that the tensors are contiguous float32 on a CPU with AVX2, and
    that no gradient is needed.
    """
    if len(x) > MAX_ROWS or x.shape[1] < MIN_COLUMNS or x.shape[1] % 16:
        return None
    module = native.compiled_for(x, weight, bias)
    if module is None or not module.vectors:
        return None
    out = torch.empty(len(x), len(weight))
    call(module, "linear_small_batch", *x.shape, len(weight), x, weight, bias, out, torch.get_num_threads())
    return out


FEW = range(16, 48)
"""For the batch sizes in FEW, torch's CPU library computes W x' up to 1.5 times as fast as x W'. For smaller batches, x
W' is computed, because the rows of x W' depend neither on the batch size nor on the number of threads."""


def hidden_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the output [N, G] of a wide hidden layer, given x [N, F], weight [G, F] and bias [G]. In a small network,
    the wide hidden layer has most of the parameters.

    If the weight has the attribute `flat_grad` (set by `FlatParameters`), the backward pass writes the weight's
    gradient into `flat_grad`, and autograd uses `flat_grad` as `weight.grad` without a copy.
    """
    is_autocast = torch.is_autocast_enabled(x.device.type) or x.dtype != weight.dtype
    if is_autocast or x.dim() != 2 or native.is_left_out():
        return F.linear(x, weight, bias)
    if not hasattr(weight, "flat_grad") or not (torch.is_grad_enabled() and weight.requires_grad):
        return _linear(x, weight, bias)
    weight.pending_uses = getattr(weight, "pending_uses", 0) + 1  # type: ignore[attr-defined]
    out: Tensor = _GradInPlace.apply(x, weight, bias, (weight,))
    return out


def head_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the output [N, G] of a network's last layer, given x [N, F], weight [G, F] and bias [G]. During acting,
    each output row is bitwise identical for any batch size."""
    out = None if x.dim() != 2 or native.is_left_out() else linear_small_batch(x, weight, bias)
    return F.linear(x, weight, bias) if out is None else out


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    result = linear_small_batch(x, weight, bias)
    if result is not None:
        return result
    if x.device.type == "cpu" and len(x) in FEW:
        return torch.add(torch.mm(weight, x.t()).t(), bias)
    return torch.addmm(bias, x, weight.t())


class _GradInPlace(torch.autograd.Function):
    """A linear layer whose backward pass writes the weight's gradient into the flat gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, parameter: tuple[Tensor]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.parameter = parameter
        return _linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x, weight), (parameter,) = ctx.saved_tensors, ctx.parameter
        is_only_use = parameter.pending_uses == 1 and parameter.grad is None
        parameter.pending_uses = max(parameter.pending_uses - 1, 0)
        # Autograd does not copy the view, because there are no other references to it.
        d_weight = parameter.flat_grad.view_as(weight) if is_only_use else torch.empty_like(weight)
        torch.mm(grad.t(), x, out=d_weight)
        return grad.mm(weight) if ctx.needs_input_grad[0] else None, d_weight, grad.sum(0), None
