"""The first convolution of a network, whose input is uint8 frames, by a compiled kernel for AVX-512 or AVX2."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from accel_rl.kernels import native
from accel_rl.kernels.frames import FrameStacks
from accel_rl.kernels.native import call


def in_planes(pictures: Tensor) -> Tensor:
    """Return pictures [N, S, H, W], copied if necessary so that each H x W plane is contiguous in memory."""
    return pictures if _has_planes(pictures) else pictures.contiguous()


def _has_planes(pictures: Tensor) -> bool:
    _, _, height, width = pictures.shape
    return pictures.stride()[1:] == (height * width, width, 1)


KERNEL, STRIDE = 8, 4


def supports(obs: Tensor | FrameStacks, weight: Tensor, stride: int, padding: int) -> bool:
    """Return whether `conv_u8` supports the arguments. The kernel needs uint8 frames on a CPU with AVX2, an 8 x 8
    kernel with stride 4, and a number of output channels that is a multiple of 16. `FrameStacks` are supported only
    without gradients."""
    frames = obs.frames if isinstance(obs, FrameStacks) else obs
    if isinstance(obs, FrameStacks) and (torch.is_grad_enabled() or not obs.has_whole_frames):
        return False
    shape = weight.shape[0] % 16 == 0 and weight.shape[2:] == (KERNEL, KERNEL) and (stride, padding) == (STRIDE, 0)
    kind = (frames.dtype, weight.dtype) == (torch.uint8, torch.float32)
    on_cpu = frames.device.type == weight.device.type == "cpu"
    if not (shape and kind and on_cpu) or min(obs.shape[2:]) < KERNEL or torch.is_autocast_enabled("cpu"):
        return False
    module = native.compiled()
    return module is not None and bool(module.vectors)


def conv_u8(obs: Tensor | FrameStacks, weight: Tensor, bias: Tensor, relu: bool = True) -> Tensor:
    """Compute conv2d(obs / 255, weight, bias, stride 4), followed by a ReLU if `relu` is true. `obs` is [N, S, H, W]
    uint8, `weight` [C, S, 8, 8] and `bias` [C]; the result [N, C, rows, columns] float32 is channels-last in memory."""
    if isinstance(obs, FrameStacks):
        return _of_frames(obs, weight, bias, relu)
    result: Tensor = _ConvU8.apply(in_planes(obs), weight, bias, relu)
    return result


def _output(size: tuple[int, ...], channels: int) -> Tensor:
    n, _, height, width = size
    rows, columns = (height - KERNEL) // STRIDE + 1, (width - KERNEL) // STRIDE + 1
    return torch.empty(n, rows, columns, channels)


def _of_frames(obs: FrameStacks, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
    out = _output(obs.shape, len(bias))
    tensors = *obs.arguments(), weight.contiguous(), bias.contiguous(), out
    call(native.required(), "conv_u8_frames", *obs.shape, len(bias), *tensors, relu, torch.get_num_threads())
    return out.permute(0, 3, 1, 2)


class _ConvU8(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, obs: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
        ctx.size = *obs.shape, len(bias)
        out = _output(obs.shape, len(bias))
        ctx.save_for_backward(obs, out if relu else None)
        tensors = obs, obs.stride(0), weight.contiguous(), bias.contiguous(), out
        call(native.required(), "conv_u8", *ctx.size, *tensors, relu, torch.get_num_threads())
        return out.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        obs, out = ctx.saved_tensors
        _, stack, _, _, channels = ctx.size
        # `contiguous` makes no copy if the next layer's gradient is already channels-last.
        grad = grad.permute(0, 2, 3, 1).contiguous()
        d_weight, d_bias = grad.new_empty(channels, stack, KERNEL, KERNEL), grad.new_empty(channels)
        tensors = obs, obs.stride(0), grad, out, d_weight, d_bias
        call(native.required(), "conv_u8_back", *ctx.size, *tensors, torch.get_num_threads())
        return None, d_weight.div_(255), d_bias, None
