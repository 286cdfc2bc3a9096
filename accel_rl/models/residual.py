"""The residual networks of IMPALA (Espeholt et al. 2018, arXiv:1802.01561, figure 3, right) and of BTR."""

from functools import cache
from typing import ClassVar

import torch
from torch import Tensor, nn

from accel_rl.kernels.frames import FrameStacks
from accel_rl.models.convolution import Conv2d, ConvNet, convolution
from accel_rl.models.layers import Layer, LayerNorm, NormedReLU


class ResidualBlock(nn.Module):
    """x + conv(relu(conv(relu(x)))) with 3x3 convolutions, for x [N, C, H, W]."""

    def __init__(self, channels: int, size: tuple[int, int], layer_norm: LayerNorm, is_spectral: bool = False):
        super().__init__()
        self.conv_0 = convolution(channels, channels, 3, 1, 1, size, False, layer_norm, is_spectral)
        self.conv_1 = Conv2d(channels, channels, 3, 1, 1, with_relu=False, is_spectral=is_spectral)
        self.of_channels = layer_norm == "before-channels"
        self.relu_0 = NormedReLU((*size, channels) if self.of_channels else (channels, *size), layer_norm)

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()  # The ReLU may overwrite y, but x is needed for the sum.
        y = self.relu_0(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) if self.of_channels else self.relu_0(y)
        return x + self.conv_1(self.conv_0(y))


class Section(nn.Module):
    """A 3x3 convolution, a 3x3 max pooling with stride 2, and two residual blocks, from x [N, C, H, W] to [N, D, H/2,
    W/2]. If `is_first` is true, x is uint8 pixels or `FrameStacks`. If `is_last` is true, a ReLU follows the blocks."""

    def __init__(
        self, inputs: int, outputs: int, size: tuple[int, int], layer_norm: LayerNorm, is_first: bool, is_last: bool,
        is_spectral: bool = False,
    ):  # fmt: skip
        super().__init__()
        self.conv = Conv2d(inputs, outputs, 3, 1, 1, of_bytes=is_first, with_relu=False)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks = nn.Sequential(*(ResidualBlock(outputs, size, layer_norm, is_spectral) for _ in range(2)))
        self.is_last = is_last

    def forward(self, x: Tensor | FrameStacks) -> Tensor:
        y = self.blocks(self.pool(self.conv(x)))
        return torch.relu(y) if self.is_last else y


class ImpalaNet(ConvNet):
    """Three sections of 16, 32 and 32 channels with residual blocks, then a fully connected layer of 256 units.

    Maps obs [N, S, H, W] uint8 to [N, 256]; 1.09 M parameters at 84x84x4. A subclass with another `width` has `width`
    times as many channels, so `impala-4` is `ImpalaNet` with width 4. With `spectral_norm`, the convolutions of the
    residual blocks have spectral norms. `pool_to` is the height and width to which the last features are pooled."""

    layers = ((16, 3, 1, 1), (32, 3, 1, 1), (32, 3, 1, 1))
    hidden = 256
    width: ClassVar[int] = 1
    spectral_norm: ClassVar[bool] = False
    pool_to: ClassVar[int | None] = None

    def build_convolutions(
        self, channels: int, size: tuple[int, int], layer_norm: LayerNorm
    ) -> tuple[list[nn.Module], int]:
        sections: list[nn.Module] = []
        for i, (out, _, _, _) in enumerate(self.layers):
            out *= self.width
            size = ((size[0] + 1) // 2, (size[1] + 1) // 2)
            is_last = i == len(self.layers) - 1
            sections.append(Section(channels, out, size, layer_norm, i == 0, is_last, self.spectral_norm))
            channels = out
        if self.pool_to is not None:
            sections.append(_pool(size, self.pool_to))
            size = self.pool_to, self.pool_to
        return sections, channels * size[0] * size[1]


def _pool(size: tuple[int, int], to: int) -> nn.Module:
    """Adaptive max pooling to the size `to`. If the input size is 2 x `to` - 1, the same pooling is done by
    `MaxPool2d`, because a GPU sums the gradient of `MaxPool2d` in a fixed order."""
    return nn.MaxPool2d(3, 2, 1) if set(size) == {2 * to - 1} else nn.AdaptiveMaxPool2d(to)


class BTRNet(ImpalaNet):
    """The network of Beyond The Rainbow (Clark et al. 2024, arXiv:2411.03820, section 3.2 and the authors' code): twice
    the channels of IMPALA's, spectral norms in the residual blocks, and max pooling to 6x6.

    Maps obs [N, S, H, W] uint8 to [N, 512]; 1.57 M parameters at 84x84x4. The ablations of the paper are subclasses
    with `spectral_norm = False` or `pool_to = None`."""

    layers = ((32, 3, 1, 1), (64, 3, 1, 1), (64, 3, 1, 1))
    hidden = 512
    spectral_norm = True
    pool_to = 6

    @classmethod
    def initialize_(cls, layer: Layer) -> Layer:
        """Convolutions keep torch's default initialization."""
        return layer if isinstance(layer, nn.Conv2d) else super().initialize_(layer)


@cache
def impala_network(width: int) -> type[ImpalaNet]:
    """Return a subclass of ImpalaNet with `width` times as many channels."""
    return ImpalaNet if width == 1 else type(f"ImpalaNet{width}", (ImpalaNet,), {"width": width})
