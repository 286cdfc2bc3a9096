"""relu(convolution), with the choice of its implementation."""

import torch
import torch.nn.functional as F
from torch import Tensor

from accel_rl.kernels import conv_bf16_amx, conv_f32_winograd, conv_u8
from accel_rl.kernels.frames import FrameStacks


def relu_conv2d(
    x: Tensor | FrameStacks, weight: Tensor, bias: Tensor, stride: int, padding: int, of_bytes: bool
) -> Tensor:
    """relu(conv2d(x, weight, bias, stride, padding)); with `of_bytes`, x / 255 in place of x.

    x [N, C, H, W], or stacks of uint8 frames that are not gathered; weight [D, C, k, k]; bias [D]
    -> [N, D, rows, columns], channels-last in memory. 1/255 is folded into the weights, which are few.
    """
    if conv_u8.supports(x, weight, stride, padding):
        return conv_u8.conv_u8(x, weight, bias)
    x = x.gather() if isinstance(x, FrameStacks) else x
    if conv_bf16_amx.supports(x, weight, stride, padding):
        return conv_bf16_amx.conv_bf16_amx(x, weight, bias, stride, padding)
    if conv_f32_winograd.supports(x, weight, stride, padding):
        return conv_f32_winograd.conv_f32_winograd(x, weight, bias, stride, padding)
    if x.dtype == torch.uint8:  # convolutions train 1.4 times as fast on channels-last memory
        x = x.to(_input_dtype(weight), memory_format=torch.channels_last)
    return torch.relu_(F.conv2d(x, weight / 255 if of_bytes else weight, bias, stride, padding))


def _input_dtype(weight: Tensor) -> torch.dtype:
    """Return the dtype that uint8 frames are converted to; 0 to 255 are exact in bfloat16, too."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
