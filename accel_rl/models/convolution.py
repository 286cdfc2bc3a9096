"""Convolutional bodies over stacks of uint8 frames."""

import math
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from accel_rl.kernels.frames import FrameStacks
from accel_rl.kernels.relu_conv2d import conv2d, relu_, relu_conv2d
from accel_rl.models.layers import Linear, orthogonal_
from accel_rl.models.precision import float32_if_small
from accel_rl.system.errors import ConfigError, nearest
from accel_rl.system.user_module import import_user_module


class ReLUConv2d(nn.Conv2d):
    """A square convolution and its ReLU; with `of_bytes`, of pixels 0 to 255 that count as 0 to 1."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, padding: int, of_bytes: bool = False):
        super().__init__(inputs, outputs, kernel, stride=stride, padding=padding)
        self.of_bytes = of_bytes

    def forward(self, x: Tensor) -> Tensor:
        assert self.bias is not None and not isinstance(self.padding, str)
        return relu_conv2d(x, self.weight, self.bias, self.stride[0], self.padding[0], self.of_bytes)


class NormConv2d(ReLUConv2d):
    """The same with a layer norm, over all features of the output, between the convolution and the ReLU.

    Ba et al. 2016, arXiv:1607.06450. torch computes it: the compiled convolutions end with the ReLU.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, padding: int, size: tuple[int, int], of_bytes: bool
    ):
        """size: height and width of the output."""
        super().__init__(inputs, outputs, kernel, stride, padding, of_bytes)
        self.norm = nn.LayerNorm((*size, outputs))

    def forward(self, x: Tensor) -> Tensor:
        assert self.bias is not None and not isinstance(self.padding, str)
        y = conv2d(x, self.weight, self.bias, self.stride[0], self.padding[0], self.of_bytes)
        return torch.relu_(self.norm(y.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


def conv_out(size: int, kernel: int, stride: int, padding: int) -> int:
    return (size + 2 * padding - kernel) // stride + 1


class ConvNet(nn.Module):
    """Convolutions (channels, kernel, stride, padding), then one fully connected layer; a ReLU after each.

    A network of yours is a subclass with other `layers` and `hidden`.

    obs [N, S, H, W], or [N, S, C, H, W] with channels, uint8 -> [N, hidden]; with hidden 0 it ends after the
    convolutions.
    """

    layers: ClassVar[tuple[tuple[int, int, int, int], ...]]
    hidden: ClassVar[int] = 512

    def __init__(self, channels: int, height: int, width: int, hidden: int | None = None, layer_norm: bool = False):
        """channels: of an observation, S x C. layer_norm: a layer norm before each ReLU. ConfigError for pictures that
        are too small."""
        super().__init__()
        hidden = self.hidden if hidden is None else hidden
        size, least = (height, width), self.least_size()
        if min(size) < least:
            raise ConfigError(
                f"pictures of {height}x{width} are too small for {type(self).__name__}: at least {least}x{least}"
            )
        for i, (out, kernel, stride, padding) in enumerate(self.layers):
            size = (conv_out(size[0], kernel, stride, padding), conv_out(size[1], kernel, stride, padding))
            if layer_norm:
                layer: ReLUConv2d = NormConv2d(channels, out, kernel, stride, padding, size, of_bytes=i == 0)
            else:
                layer = ReLUConv2d(channels, out, kernel, stride, padding, of_bytes=i == 0)
            self.add_module(f"conv_{i}", layer)
            channels = out
        self.convolutions = cast(list[ReLUConv2d], list(self.children()))
        self.out_features = hidden or channels * math.prod(size)
        self.fc_0 = Linear(channels * math.prod(size), hidden) if hidden else None
        self.norm_0 = nn.LayerNorm(hidden) if hidden and layer_norm else None
        gain = math.sqrt(2)  # with torch's default, the signal halves in each layer
        for convolution in self.convolutions:
            orthogonal_(convolution, gain)
        if self.fc_0 is not None:
            orthogonal_(self.fc_0, gain)

    @classmethod
    def least_size(cls) -> int:
        """Return the least height and width of pictures, from which one cell is left after the convolutions."""
        size = 1
        for _, kernel, stride, padding in reversed(cls.layers):
            size = max(1, (size - 1) * stride + kernel - 2 * padding)
        return size

    def forward(self, obs: Tensor | FrameStacks) -> Tensor:
        x: Tensor = obs  # type: ignore[assignment]  # the first convolution takes both
        if len(obs.shape) == 5:
            x = (obs.gather() if isinstance(obs, FrameStacks) else obs).flatten(1, 2)
        elif len(obs.shape) == 3:  # a rollout's observations of one frame have no axis of the stack
            x = x.unsqueeze(1)
        for convolution in self.convolutions:
            x = convolution(x)
        # in channels-last order, so that no pass moves memory
        x = x.permute(0, 2, 3, 1).flatten(1)
        if self.fc_0 is None:
            return x
        x = float32_if_small(self.fc_0, x)
        return relu_(x if self.norm_0 is None else self.norm_0(x))


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
    """The network of Mnih et al. 2015, without padding; 1.68 M parameters at 84x84x4.

    obs [N, S, H, W] uint8 -> [N, 512].
    """

    layers = ((32, 8, 4, 0), (64, 4, 2, 0), (64, 3, 1, 0))


NETWORKS: dict[str, type[ConvNet]] = {"a3c": A3CNet, "dqn": DQNNet, "nature": NatureNet}


def find_network(name: str) -> type[ConvNet]:
    """Return the class of `nature`, or of a user's `my_module:MyNet`. ConfigError, one line, for another name."""
    if name in NETWORKS:
        return NETWORKS[name]
    module_name, colon, attribute = name.partition(":")
    allowed = f"{', '.join(NETWORKS)} or module:Class"
    if not colon:
        raise ConfigError(f"--algo.network {name}: must be {allowed}{nearest(name, NETWORKS)}")
    try:
        module = import_user_module(module_name)
    except ImportError as e:
        raise ConfigError(f"--algo.network {name}: it cannot be imported ({' '.join(str(e).split())})") from e
    cls = getattr(module, attribute, None)
    if not (isinstance(cls, type) and issubclass(cls, ConvNet)):
        why = f"{module_name} has no {attribute}{nearest(attribute, dir(module))}" if cls is None else "another object"
        raise ConfigError(f"--algo.network {name}: must be a subclass of {ConvNet.__module__}.ConvNet; {why}")
    return cls
