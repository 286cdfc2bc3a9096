"""A convolutional network computes features from stacks of uint8 frames."""

import math
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accel_rl.kernels.conv2d import conv2d
from accel_rl.kernels.frames import FrameStacks
from accel_rl.models.layers import Layer, LayerNorm, Linear, NormedReLU, orthogonal_
from accel_rl.models.precision import float32_if_small
from accel_rl.models.spectral_norm import FIRST_ITERATIONS, SpectralNorm
from accel_rl.text.errors import ConfigError

Padding = int | Literal["same"]
"""Number of zeros on each side, or `same` for TensorFlow's and flax's padding, with which the output has ceil(size /
stride) rows. If the number of zeros is odd, the end has one more than the beginning."""


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Numbers of zero rows that SAME padding adds before and after `size` rows."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def padded(x: Tensor | FrameStacks, kernel: int, stride: int) -> tuple[Tensor, int]:
    """SAME padding of x [N, C, H, W]. Returns (x, padding): if the padding is equal on all sides, the convolution adds
    `padding` zeros on each side itself. If the padding differs between sides, x is padded and `padding` is 0. Frames of
    bytes are always padded, because kernels that read bytes do not pad."""
    x = x.gather() if isinstance(x, FrameStacks) else x
    rows, columns = (same_padding(size, kernel, stride) for size in x.shape[2:])
    if x.dtype != torch.uint8 and rows == columns and rows[0] == rows[1]:
        return x, rows[0]
    return F.pad(x, (*columns, *rows)), 0


class Conv2d(nn.Conv2d):
    """A convolution with a square kernel. If `with_relu` is true, a ReLU follows the convolution. If `of_bytes` is
    true, bytes are divided by 255. If `is_spectral` is true, the weight has a spectral norm of 1."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        padding: Padding,
        of_bytes: bool = False,
        with_relu: bool = True,
        is_spectral: bool = False,
    ):
        super().__init__(inputs, outputs, kernel, stride=stride, padding=0 if padding == "same" else padding)
        self.spectral = SpectralNorm(self.weight) if is_spectral else None
        self.is_same = padding == "same"
        self.of_bytes = of_bytes
        self.with_relu = with_relu

    def forward(self, x: Tensor | FrameStacks) -> Tensor:
        assert self.bias is not None and not isinstance(self.padding, str)
        stride, padding = self.stride[0], self.padding[0]
        if self.is_same:
            x, padding = padded(x, self.kernel_size[0], stride)
        weight = self.weight if self.spectral is None else self.spectral(self.weight)
        return conv2d(x, weight, self.bias, stride, padding, self.of_bytes, self.with_relu)


class NormConv2d(Conv2d):
    """A convolution with a ReLU, and a layer norm over all features of the output before or after the ReLU."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, padding: Padding, size: tuple[int, int],
        of_bytes: bool, layer_norm: LayerNorm, is_spectral: bool = False,
    ):  # fmt: skip
        super().__init__(inputs, outputs, kernel, stride, padding, of_bytes, layer_norm == "after", is_spectral)
        self.relu = NormedReLU((*size, outputs), layer_norm)

    def forward(self, x: Tensor | FrameStacks) -> Tensor:
        y = super().forward(x).permute(0, 2, 3, 1)
        y = self.relu(y) if self.relu.after is None else self.relu.after(y)
        return y.permute(0, 3, 1, 2)


def convolution(
    inputs: int, outputs: int, kernel: int, stride: int, padding: Padding, size: tuple[int, int], of_bytes: bool,
    layer_norm: LayerNorm, is_spectral: bool = False,
) -> Conv2d:  # fmt: skip
    """A convolution with a ReLU, and with a layer norm unless `layer_norm` is `none`. `size` has the height and width
    of the output."""
    if layer_norm == "none":
        return Conv2d(inputs, outputs, kernel, stride, padding, of_bytes, is_spectral=is_spectral)
    return NormConv2d(inputs, outputs, kernel, stride, padding, size, of_bytes, layer_norm, is_spectral)


def conv_out(size: int, kernel: int, stride: int, padding: Padding) -> int:
    return -(-size // stride) if padding == "same" else (size + 2 * padding - kernel) // stride + 1


class ConvNet(nn.Module):
    """Convolutions, given as (channels, kernel, stride, padding), and one fully connected layer. A ReLU follows each
    layer.

    A user's network is a subclass with other `layers` and `hidden`.

    The network maps uint8 images [N, S, H, W], or [N, S, C, H, W] with C channels, to features [N, hidden]. If `hidden`
    is 0, the network ends after the convolutions.
    """

    layers: ClassVar[tuple[tuple[int, int, int, Padding], ...]]
    hidden: ClassVar[int] = 512
    has_own_norms: ClassVar[bool] = False  # Whether the network ignores `layer_norm` and has fixed layer norms

    def __init__(
        self, channels: int, height: int, width: int, hidden: int | None = None, layer_norm: LayerNorm = "none"
    ):
        """`channels` is the number of channels of an observation, S x C. Raises ConfigError for images that are too
        small."""
        super().__init__()
        hidden = self.hidden if hidden is None else hidden
        size, least = (height, width), self.least_size()
        if min(size) < least:
            raise ConfigError(
                f"pictures of {height}x{width} are too small for {type(self).__name__}: at least {least}x{least}; "
                "--network minatar is for small pictures"
            )
        self.convolutions, features = self.build_convolutions(channels, size, layer_norm)
        for i, convolution in enumerate(self.convolutions):
            self.add_module(f"conv_{i}", convolution)
        self.out_features = hidden or features
        self.fc_0 = Linear(features, hidden) if hidden else None
        self.relu_0 = self.activation(hidden, layer_norm)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                self.initialize_(module)
            if isinstance(module, Conv2d) and module.spectral is not None:
                module.spectral.iterate(module.weight, FIRST_ITERATIONS)
        if self.fc_0 is not None:
            self.initialize_(self.fc_0)

    def build_convolutions(
        self, channels: int, size: tuple[int, int], layer_norm: LayerNorm
    ) -> tuple[list[nn.Module], int]:
        """The layers, which are applied one after another, and their number of features."""
        convolutions: list[nn.Module] = []
        for i, (out, kernel, stride, padding) in enumerate(self.layers):
            size = (conv_out(size[0], kernel, stride, padding), conv_out(size[1], kernel, stride, padding))
            convolutions.append(convolution(channels, out, kernel, stride, padding, size, i == 0, layer_norm))
            channels = out
        return convolutions, channels * math.prod(size)

    @classmethod
    def activation(cls, features: int, layer_norm: LayerNorm) -> nn.Module:
        """The activation of a fully connected layer, with its layer norm. `activation` may overwrite its input [N,
        features]."""
        return NormedReLU((features,), layer_norm)

    @classmethod
    def initialize_(cls, layer: Layer) -> Layer:
        """Set the weights of a layer that has an activation. With torch's default initialization, the standard
        deviation of the activations would halve in each layer."""
        return orthogonal_(layer, math.sqrt(2))

    @classmethod
    def initialize_head_(cls, layer: nn.Linear) -> nn.Linear:
        """Set the weights of the last layer of action values, so that action values are nearly zero."""
        return orthogonal_(layer, 0.01)

    @classmethod
    def least_size(cls) -> int:
        """The height and width of images for which the output of the convolutions is 1 x 1."""
        size = 1
        for _, kernel, stride, padding in reversed(cls.layers):
            size = max(1, (size - 1) * stride + (1 if padding == "same" else kernel - 2 * padding))
        return size

    def forward(self, obs: Tensor | FrameStacks) -> Tensor:
        x: Tensor = obs  # type: ignore[assignment]  # The first layer accepts `FrameStacks`, too.
        if len(obs.shape) == 5:
            x = (obs.gather() if isinstance(obs, FrameStacks) else obs).flatten(1, 2)
        elif len(obs.shape) == 3:  # Observations of one frame have no stack axis.
            x = x.unsqueeze(1)
        for convolution in self.convolutions:
            x = convolution(x)
        # The features are flattened in channels-last order, so that they need not be copied.
        x = x.permute(0, 2, 3, 1).flatten(1)
        if self.fc_0 is None:
            return x
        return self.relu_0(float32_if_small(self.fc_0, x))
