"""relu(convolution) in float32, compiled for AVX-512, by Winograd's algorithms: half its products or fewer."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from accel_rl.kernels import native
from accel_rl.kernels.call_graph import call


def has_conv_f32(x: Tensor, weight: Tensor, stride: tuple[int, ...], padding: tuple[int, ...] | str) -> bool:
    """Whether `conv_f32_winograd` takes them: float32 on a host with AVX-512, a square kernel of two or three strides,
    channels in sixteens."""
    if isinstance(padding, str) or torch.is_autocast_enabled("cpu"):
        return False
    out, channels, k, wide = weight.shape
    square = k == wide and stride[0] == stride[1] and padding[0] == padding[1]
    kind = (x.dtype, weight.dtype) == (torch.float32, torch.float32) and x.device.type == weight.device.type == "cpu"
    taps = square and not k % stride[0] and k // stride[0] in (2, 3)
    if not (kind and taps) or out % 16 or channels % 16 or min(x.shape[2:]) + 2 * padding[0] < k:
        return False
    module = native.compiled()
    return module is not None and bool(module.has_conv_u8())


def conv_f32_winograd(
    x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, out: Tensor | None = None, known: bool = False
) -> Tensor:
    """relu(conv2d(x, weight, bias, stride, padding)), to a few units in the last place of its largest terms.

    x [N, C, H, W], weight [D, C, k, k], bias [D], all float32 -> [N, D, rows, columns], channels-last in memory.
    out [N, rows, columns, D]: where it goes, or, `known`, lies already.
    """
    x = x.contiguous(memory_format=torch.channels_last)
    result: Tensor = _ConvF32.apply(x, weight, bias, stride, padding, (out, known))
    return result


class _ConvF32(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, s: int, p: int, place: tuple[Tensor | None, bool]
    ) -> Tensor:
        out, known = place
        N, C, H, W = x.shape
        D, _, k, _ = weight.shape
        ctx.geometry = C, H, W, D, k, s, p
        if out is None:
            out = torch.empty(N, (H + 2 * p - k) // s + 1, (W + 2 * p - k) // s + 1, D)
        weight, bias = weight.contiguous(), bias.contiguous()
        if not known:
            tensors = x, weight, bias, out
            call(native.compiled(), "conv_f32_winograd", N, ctx.geometry, *tensors, torch.get_num_threads())  # type: ignore[arg-type]
        ctx.save_for_backward(x, weight, out)
        return out.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, out = ctx.saved_tensors
        C, H, W, D, _, _, _ = ctx.geometry
        grad = grad.permute(0, 2, 3, 1).contiguous()  # as it comes, if the next layer works on channels-last
        d_x = torch.empty(len(x), H, W, C) if ctx.needs_input_grad[0] else None
        d_weight, d_bias = torch.empty(weight.shape), torch.empty(D)
        tensors = x, grad, out, weight, d_x, d_weight, d_bias
        call(native.compiled(), "conv_f32_back", len(x), ctx.geometry, *tensors, torch.get_num_threads())  # type: ignore[arg-type]
        return None if d_x is None else d_x.permute(0, 3, 1, 2), d_weight, d_bias, None, None, None
