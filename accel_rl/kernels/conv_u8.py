"""relu(convolution) of pictures as they are stored, compiled for the host: a network's first layer."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from accel_rl.kernels import native
from accel_rl.kernels.call_graph import call
from accel_rl.kernels.pictures import in_planes


def has_conv_u8(obs: Tensor, weight: Tensor, stride: tuple[int, ...], padding: tuple[int, ...] | str) -> bool:
    """Whether `conv_u8` takes them: uint8 on a host with AVX-512, 8 x 8 with stride 4, channels in sixteens."""
    shape = weight.shape[0] % 16 == 0 and weight.shape[2:] == (8, 8) and (stride, padding) == ((4, 4), (0, 0))
    kind = (obs.dtype, weight.dtype) == (torch.uint8, torch.float32) and obs.device.type == weight.device.type == "cpu"
    if not (shape and kind) or min(obs.shape[2:]) < 8 or torch.is_autocast_enabled("cpu"):
        return False
    module = native.compiled()
    return module is not None and bool(module.has_conv_u8())


def conv_u8(obs: Tensor, weight: Tensor, bias: Tensor, out: Tensor | None = None, known: bool = False) -> Tensor:
    """relu(conv2d(obs / 255, weight, bias, stride 4)).

    obs [N, S, H, W] uint8, weight [C, S, 8, 8], bias [C] -> [N, C, rows, columns] float32, channels-last in memory.
    out [N, rows, columns, C]: where it goes, or, `known`, lies already.
    """
    result: Tensor = _ConvU8.apply(in_planes(obs), weight, bias, (out, known))
    return result


class _ConvU8(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, obs: Tensor, weight: Tensor, bias: Tensor, place: tuple[Tensor | None, bool]) -> Tensor:
        out, known = place
        n, stack, height, width = obs.shape
        channels = len(bias)
        if out is None:
            out = obs.new_empty(n, (height - 8) // 4 + 1, (width - 8) // 4 + 1, channels, dtype=torch.float32)
        ctx.size = n, stack, height, width, channels
        ctx.save_for_backward(obs, out)
        if known:
            return out.permute(0, 3, 1, 2)
        weight, bias = weight.contiguous(), bias.contiguous()
        tensors = obs, obs.stride(0), weight, bias, out
        call(native.compiled(), "conv_u8", *ctx.size, *tensors, torch.get_num_threads())  # type: ignore[arg-type]
        return out.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        obs, out = ctx.saved_tensors
        _, stack, _, _, channels = ctx.size
        grad = grad.permute(0, 2, 3, 1).contiguous()  # as it comes, if the next layer works on channels-last
        weight, bias = grad.new_empty(channels, stack, 8, 8), grad.new_empty(channels)
        tensors = obs, obs.stride(0), grad, out, weight, bias
        call(native.compiled(), "conv_u8_back", *ctx.size, *tensors, torch.get_num_threads())  # type: ignore[arg-type]
        return None, weight.div_(255), bias, None
