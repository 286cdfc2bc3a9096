"""Convolutions, with or without a ReLU, by the fastest implementation that supports the arguments."""

import torch
import torch.nn.functional as F
from torch import Tensor

from accel_rl.kernels import conv_bf16_amx, conv_f32_winograd, conv_u8
from accel_rl.kernels.frames import FrameStacks


def conv2d(
    x: Tensor | FrameStacks, weight: Tensor, bias: Tensor, stride: int, padding: int, of_bytes: bool, relu: bool
) -> Tensor:
    """Convolve, and apply a ReLU if `relu` is true. If `of_bytes` is true and x is uint8, x is first divided by 255.

    `x` is [N, C, H, W], or `FrameStacks`, `weight` [D, C, k, k] and `bias` [D]; the result [N, D, rows, columns]
    is channels-last in memory. The weights are multiplied by 1/255 instead of the pixels, because there are fewer
    weights than pixels."""
    if conv_u8.supports(x, weight, stride, padding):
        return conv_u8.conv_u8(x, weight, bias, relu)
    x = x.gather() if isinstance(x, FrameStacks) else x
    of_bytes = of_bytes and x.dtype == torch.uint8
    if x.device.type == "cpu" and x.dtype == torch.float32 and conv_bf16_amx.multiplies_bfloat16():
        x = x.to(torch.bfloat16)  # Norm layers return float32 even under autocast.
    if conv_bf16_amx.supports(x, weight, stride, padding):
        return conv_bf16_amx.conv_bf16_amx(x, weight, bias, stride, padding, relu)
    if conv_f32_winograd.supports(x, weight, stride, padding):
        return conv_f32_winograd.conv_f32_winograd(x, weight, bias, stride, padding, relu)
    y = _conv2d_by_torch(x, weight / 255 if of_bytes else weight, bias, stride, padding)
    return torch.relu_(y) if relu else y


def _conv2d_by_torch(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    if not weight.is_cpu:
        return conv2d_on_gpu(x, weight, bias, stride, padding)
    # Training is 1.4 times as fast if frames are channels-last in memory.
    # Frames are rearranged before they become floats, because bytes are copied faster.
    if x.dtype == torch.uint8:
        x = x.contiguous(memory_format=torch.channels_last).to(_input_dtype(weight))
    return F.conv2d(x, weight, bias, stride, padding)


BLOCK = 4  # Height and width of a block of pixels


def conv2d_on_gpu(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    """Convolve in the memory layout in which cuDNN is fastest on an H100 (benchmarks/results/gpu_h100.md). If the
    weights are float32, uint8 frames keep the memory layout [N, C, H, W]. With other precisions, blocks of 4x4 pixels
    become channels, so that an 8x8 convolution with stride 4 becomes a 2x2 convolution with stride 1 on 16 C
    channels."""
    if x.dtype != torch.uint8:
        return F.conv2d(x, weight, bias, stride, padding)
    dtype = _input_dtype(weight)
    if dtype == torch.float32 and not torch.backends.cudnn.allow_tf32:
        return F.conv2d(x.to(dtype), weight, bias, stride, padding)
    if stride == BLOCK and not padding and not any(n % BLOCK for n in (*x.shape[2:], *weight.shape[2:])):
        return F.conv2d(pixel_blocks(x).to(dtype), weight_blocks(weight), bias)
    return F.conv2d(x.to(dtype, memory_format=torch.channels_last), weight, bias, stride, padding)


def pixel_blocks(x: Tensor) -> Tensor:
    """Rearrange the pixels of x [N, C, H, W] uint8 into blocks [N, 16 C, H / 4, W / 4], channels-last in memory.
    Channel 16 c + 4 i + j is pixel (i, j) of the blocks of channel c."""
    N, C, H, W = x.shape
    words = x.contiguous().view(torch.int32).view(N, C, H // BLOCK, BLOCK, W // BLOCK)
    blocks = words.permute(0, 2, 4, 1, 3).contiguous().view(torch.uint8)
    return blocks.view(N, H // BLOCK, W // BLOCK, C * BLOCK**2).permute(0, 3, 1, 2)


def weight_blocks(weight: Tensor) -> Tensor:
    """Rearrange the weights [D, C, k, k] like the pixels in `pixel_blocks`, as [D, 16 C, k / 4, k / 4], channels-last
    in memory."""
    D, C, k, _ = weight.shape
    blocks = weight.view(D, C, k // BLOCK, BLOCK, k // BLOCK, BLOCK).permute(0, 2, 4, 1, 3, 5)
    return blocks.reshape(D, k // BLOCK, k // BLOCK, C * BLOCK**2).permute(0, 3, 1, 2)


def _input_dtype(weight: Tensor) -> torch.dtype:
    """Return the dtype to which uint8 frames are converted. Pixels of 0 to 255 are exact even in bfloat16."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
