"""The encoder of Hadamax, whose layers are products of two activations (Kooi et al. 2025, arXiv:2505.15345; the
authors' JAX code, purejaxql/networks.py)."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accel_rl.kernels.frames import FrameStacks
from accel_rl.models.convolution import Conv2d, ConvNet, conv_out, same_padding
from accel_rl.models.layers import ChannelNorm, Layer, LayerNorm, variance_scaling_


class NormedGELU(nn.Module):
    """A layer norm over the last axis of x [N, ..., C], and a GELU in the form with tanh, which is flax's default."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = ChannelNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.norm(x), approximate="tanh")


class HadamaxBlock(nn.Module):
    """gelu(norm(conv_0(x))) * gelu(norm(conv_1(x))), followed by max pooling with stride s. Maps x [N, C, H, W] to [N,
    D, H / s, W / s]. Convolutions and pooling have SAME padding. The norms are over the channels of each pixel."""

    def __init__(self, inputs: int, outputs: int, kernel: int, pool: tuple[int, int], is_first: bool):
        """`pool` has the size and the stride of the pools. If `is_first` is true, x is uint8 pixels or
        `FrameStacks`."""
        super().__init__()
        self.conv_0, self.conv_1 = (
            Conv2d(inputs, outputs, kernel, 1, "same", of_bytes=is_first, with_relu=False) for _ in range(2)
        )
        self.gelu_0, self.gelu_1 = NormedGELU(outputs), NormedGELU(outputs)
        self.pool = pool

    def forward(self, x: Tensor | FrameStacks) -> Tensor:
        x = x.gather() if isinstance(x, FrameStacks) else x
        y = self.gelu_0(self.conv_0(x).permute(0, 2, 3, 1)) * self.gelu_1(self.conv_1(x).permute(0, 2, 3, 1))
        return max_pool_same(y.permute(0, 3, 1, 2), *self.pool)


def max_pool_same(x: Tensor, size: int, stride: int) -> Tensor:
    """Max pooling of x [N, C, H, W]; values outside of x are minus infinity."""
    rows, columns = (same_padding(n, size, stride) for n in x.shape[2:])
    if any((*rows, *columns)):
        x = F.pad(x, (*columns, *rows), value=-torch.inf)
    return F.max_pool2d(x, size, stride)


class HadamaxNet(ConvNet):
    """Three blocks of 32, 64 and 64 channels, then a fully connected layer of 512 units with a layer norm and a GELU.

    Maps obs [N, S, H, W] uint8 to [N, 512]; 4.12 M parameters at 84x84x4. The first block needs 35 times as many
    multiplications as the first layer of `NatureNet`. The network has layer norms at fixed places, so `layer_norm` has
    no effect."""

    layers = ((32, 8, 1, "same"), (64, 4, 1, "same"), (64, 3, 1, "same"))
    pools: ClassVar[tuple[tuple[int, int], ...]] = ((4, 4), (2, 2), (3, 1))
    has_own_norms = True

    def build_convolutions(
        self, channels: int, size: tuple[int, int], layer_norm: LayerNorm
    ) -> tuple[list[nn.Module], int]:
        blocks: list[nn.Module] = []
        for i, ((out, kernel, _, _), pool) in enumerate(zip(self.layers, self.pools, strict=True)):
            blocks.append(HadamaxBlock(channels, out, kernel, pool, is_first=i == 0))
            size = (conv_out(size[0], *pool, "same"), conv_out(size[1], *pool, "same"))
            channels = out
        return blocks, channels * size[0] * size[1]

    @classmethod
    def activation(cls, features: int, layer_norm: LayerNorm) -> nn.Module:
        return NormedGELU(features)

    @classmethod
    def initialize_(cls, layer: Layer) -> Layer:
        """Xavier's normal distribution for convolutions, and He's for fully connected layers."""
        is_conv = isinstance(layer, nn.Conv2d)
        return variance_scaling_(layer, 1.0 if is_conv else 2.0, "fan_avg" if is_conv else "fan_in", "normal")

    @classmethod
    def initialize_head_(cls, layer: nn.Linear) -> nn.Linear:
        """LeCun's normal distribution, which is flax's default. With these initial weights, the first action values are
        not nearly zero."""
        return variance_scaling_(layer, 1.0, "fan_in", "normal")
