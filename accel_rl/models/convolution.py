"""Convolutional bodies over stacks of uint8 frames."""

import math
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accel_rl.kernels.activation_cache import Place, place
from accel_rl.kernels.conv_bf16_amx import conv_bf16_amx, has_conv_bf16
from accel_rl.kernels.conv_f32_winograd import conv_f32_winograd, has_conv_f32
from accel_rl.kernels.conv_u8 import conv_u8, has_conv_u8
from accel_rl.kernels.elementwise import relu_
from accel_rl.kernels.pictures import channels_last
from accel_rl.models.initialize import orthogonal_
from accel_rl.models.linear import Linear
from accel_rl.models.precision import input_dtype, wide


class ReLUConv2d(nn.Conv2d):
    """A convolution and its ReLU; of pictures of bytes, in whatever dtype, with the 1/255 folded into the (small)
    weights, not into the (large) input."""

    of_bytes = False

    def forward(self, x: Tensor) -> Tensor:
        assert self.bias is not None and not isinstance(self.padding, str)
        if has_conv_u8(x, self.weight, self.stride, self.padding):
            return conv_u8(x, self.weight, self.bias, *self._place(x))
        if has_conv_bf16(x, self.weight, self.stride, self.padding):
            kept = self._place(x, torch.bfloat16)
            return conv_bf16_amx(x, self.weight, self.bias, self.stride[0], self.padding[0], *kept)
        if has_conv_f32(x, self.weight, self.stride, self.padding):
            return conv_f32_winograd(x, self.weight, self.bias, self.stride[0], self.padding[0], *self._place(x))
        if x.dtype == torch.uint8:  # convolutions train 1.4 times faster on channels-last
            x = channels_last(x, input_dtype(self.weight))
        weight = self.weight / 255 if self.of_bytes else self.weight
        return torch.relu_(F.conv2d(x, weight, self.bias, self.stride, self.padding))

    def _place(self, x: Tensor, dtype: torch.dtype = torch.float32) -> tuple[()] | Place:
        k, s, p = self.kernel_size[0], self.stride[0], int(self.padding[0])
        size = conv_out(x.shape[2], k, s, p), conv_out(x.shape[3], k, s, p)
        return place(self, len(x), *size, self.out_channels, dtype=dtype) or ()


def conv_out(size: int, kernel: int, stride: int, padding: int) -> int:
    return (size + 2 * padding - kernel) // stride + 1


class ConvNet(nn.Module):
    """Convolutions (channels, kernel, stride, padding), then one fully connected layer; a ReLU after each.

    obs [N, S, H, W] uint8 -> [N, hidden]; with hidden 0 it ends after the convolutions.
    """

    layers: ClassVar[tuple[tuple[int, int, int, int], ...]]
    hidden: ClassVar[int] = 512

    def __init__(self, stack: int, height: int, width: int, hidden: int | None = None):
        super().__init__()
        hidden = self.hidden if hidden is None else hidden
        channels, size = stack, (height, width)
        for i, (out, kernel, stride, padding) in enumerate(self.layers):
            self.add_module(f"conv_{i}", ReLUConv2d(channels, out, kernel, stride=stride, padding=padding))
            channels = out
            size = (conv_out(size[0], kernel, stride, padding), conv_out(size[1], kernel, stride, padding))
        self.convolutions = cast(list[ReLUConv2d], list(self.children()))
        self.convolutions[0].of_bytes = True
        self.out_features = hidden or channels * math.prod(size)
        self.fc_0 = Linear(channels * math.prod(size), hidden) if hidden else None
        gain = math.sqrt(2)  # torch's own start shrinks the signal by half in each layer
        for convolution in self.convolutions:
            orthogonal_(convolution, gain)
        if self.fc_0 is not None:
            orthogonal_(self.fc_0, gain)

    def forward(self, obs: Tensor) -> Tensor:
        x = obs
        for convolution in self.convolutions:
            x = convolution(x)
        # in the order of channels-last memory, so that nothing is moved, forward or backward
        x = x.permute(0, 2, 3, 1).flatten(1)
        return x if self.fc_0 is None else relu_(wide(self.fc_0, x))


class A3CNet(ConvNet):
    """The two-convolution network of Mnih et al. 2016, as Stooke & Abbeel section 5.1 use it on 104x80.

    16 of 8x8 stride 4; 32 of 4x4 stride 2 padding 1; fully connected 256. obs [N, S, H, W] uint8 -> [N, 256].
    0.90 M parameters at 104x80x4.
    """

    layers = ((16, 8, 4, 0), (32, 4, 2, 1))
    hidden = 256


class DQNNet(ConvNet):
    """The three-convolution network of Mnih et al. 2015, as Stooke & Abbeel section 5.1 use it on 104x80.

    32 of 8x8 stride 4; 64 of 4x4 stride 2 padding 1; 64 of 3x3 stride 1 padding 1; fully connected 512.
    obs [N, S, H, W] uint8 -> [N, 512].
    """

    layers = ((32, 8, 4, 0), (64, 4, 2, 1), (64, 3, 1, 1))


class NatureNet(ConvNet):
    """The network of Mnih et al. 2015 as it is, without padding; 1.68 M parameters at 84x84x4.

    obs [N, S, H, W] uint8 -> [N, 512].
    """

    layers = ((32, 8, 4, 0), (64, 4, 2, 0), (64, 3, 1, 0))


NETWORKS: dict[str, type[ConvNet]] = {"a3c": A3CNet, "dqn": DQNNet, "nature": NatureNet}
