"""Float32 convolutions with Winograd's algorithms, which need at most half the multiplications of a direct convolution.
The compiled kernels require AVX2, and use AVX-512 if the CPU has it."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from accel_rl.kernels import native
from accel_rl.kernels.native import call


def supports(x: Tensor, weight: Tensor, stride: int, padding: int) -> bool:
    """Return whether `conv_f32_winograd` supports the arguments. The kernel needs float32 tensors on a CPU with AVX2, a
    square kernel whose size is two or three times the stride, and numbers of channels that are multiples of 16."""
    if torch.is_autocast_enabled("cpu"):
        return False
    out, channels, k, width = weight.shape
    kind = (x.dtype, weight.dtype) == (torch.float32, torch.float32) and x.device.type == weight.device.type == "cpu"
    taps = k == width and not k % stride and k // stride in (2, 3)
    if not (kind and taps) or out % 16 or channels % 16 or min(x.shape[2:]) + 2 * padding < k:
        return False
    module = native.compiled()
    return module is not None and bool(module.vectors)


def conv_f32_winograd(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, relu: bool = True) -> Tensor:
    """Convolve, and apply a ReLU if `relu` is true. The error of a sum is at most a few units in the last place of its
    largest term. `x` [N, C, H, W], `weight` [D, C, k, k] and `bias` [D] are float32; the result [N, D, rows, columns]
    is channels-last in memory."""
    x = x.contiguous(memory_format=torch.channels_last)
    result: Tensor = _ConvF32.apply(x, weight, bias, stride, padding, relu)
    return result


class _ConvF32(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, s: int, p: int, relu: bool) -> Tensor:
        N, C, H, W = x.shape
        D, _, k, _ = weight.shape
        ctx.geometry = C, H, W, D, k, s, p
        shape = N, (H + 2 * p - k) // s + 1, (W + 2 * p - k) // s + 1, D
        out = torch.empty(shape)
        weight, bias = weight.contiguous(), bias.contiguous()
        tensors = x, weight, bias, out
        call(native.required(), "conv_f32_winograd", N, ctx.geometry, *tensors, relu, torch.get_num_threads())
        ctx.save_for_backward(x, weight, out if relu else None)
        return out.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, out = ctx.saved_tensors
        C, H, W, D, _, _, _ = ctx.geometry
        # `contiguous` makes no copy if the next layer's gradient is already channels-last.
        grad = grad.permute(0, 2, 3, 1).contiguous()
        d_x = torch.empty(len(x), H, W, C) if ctx.needs_input_grad[0] else None
        d_weight, d_bias = torch.empty(weight.shape), torch.empty(D)
        tensors = x, grad, out, weight, d_x, d_weight, d_bias
        call(native.required(), "conv_f32_back", len(x), ctx.geometry, *tensors, torch.get_num_threads())
        return None if d_x is None else d_x.permute(0, 3, 1, 2), d_weight, d_bias, None, None, None
