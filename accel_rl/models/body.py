"""The body of a network computes features from observations: convolutions or a user's module, and fully connected
layers."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.kernels.frames import FrameStacks
from accel_rl.models.convolution import ConvNet
from accel_rl.models.layers import MLP, LayerNorm, RunningNorm
from accel_rl.models.networks import find_network, keywords_of
from accel_rl.text.errors import ConfigError

OF_VECTORS = (64, 64)
"""Widths of the fully connected layers for vectors, unless others are given."""


class UsersNet(nn.Module):
    """Features [N, F] from a user's module, which is built from the shape of an observation: `Class(shape)`.

    The module's `forward` gets float32 [N, *shape] for every kind of observation. A picture has the shape (channels,
    height, width), where the channels are those of all stacked frames, and its bytes are divided by 255. A vector has
    the shape (n,). `network` is `module:Class` or `module:Class(width=64)`.

    F is determined by a forward pass of zeros. Raises ConfigError, with a message of one line, if the forward pass of
    zeros fails.
    """

    def __init__(self, network: str, spec: EnvSpec):
        super().__init__()
        self.shape = (spec.channels, *spec.frame_shape[-2:]) if spec.is_image else (_size(spec),)
        cls, keywords = find_network(network), keywords_of(network)
        # A user's code may need memory for its tensors, which torch's device "meta" does not have.
        with torch.device("cpu"), torch.no_grad():
            arguments = ", ".join([str(self.shape), *(f"{name}={value!r}" for name, value in keywords.items())])
            act = f"built as Class(observation_shape), {cls.__name__}({arguments})"
            try:
                self.net = cls(self.shape, **keywords).eval()
                act = f"its forward of float32 [2, {', '.join(map(str, self.shape))}]"
                x: Any = self.net(torch.zeros(2, *self.shape))
            except Exception as e:
                why = f"{act} raised {type(e).__name__}: {' '.join(str(e).split())}"
                raise ConfigError(f"--algo.network {network}: {why}") from e
        got = f"{x.dtype} {list(x.shape)}".removeprefix("torch.") if isinstance(x, Tensor) else type(x).__name__
        if not isinstance(x, Tensor) or x.dtype != torch.float32 or x.dim() != 2 or len(x) != 2 or not x.numel():
            raise ConfigError(f"--algo.network {network}: {act} returned {got}: must be features, float32 [2, F]")
        if not x.isfinite().all():
            raise ConfigError(f"--algo.network {network}: {act} returned {x[~x.isfinite()][0]}: must be finite")
        self.out_features = x.shape[1]
        self.net.train()

    def forward(self, obs: Tensor | FrameStacks) -> Tensor:
        x = obs.gather() if isinstance(obs, FrameStacks) else obs
        x = x.reshape(len(x), *self.shape)
        features: Tensor = self.net(x.float() / 255 if x.dtype == torch.uint8 else x)
        return features


class MixedNet(nn.Module):
    """Features [N, F] of observations that consist of a picture and a vector, from their bytes [N, n]."""

    def __init__(self, picture: EnvSpec, spec: EnvSpec, network: str, layer_norm: LayerNorm):
        super().__init__()
        front, features, self.widths = _front(picture, network, layer_norm, ())
        assert front is not None
        self.picture, self.shape, self.dtype = front, picture.frame_shape, getattr(torch, picture.frame_dtype)
        self.sizes = [n := math.prod(self.shape) * self.dtype.itemsize, spec.frame_shape[0] - n]
        self.vector = MLP(self.sizes[1] // 4, OF_VECTORS, layer_norm)
        self.out_features = features + self.vector.out_features

    def forward(self, obs: Tensor | FrameStacks) -> Tensor:
        frames = obs.gather() if isinstance(obs, FrameStacks) else obs
        picture, vector = (x.contiguous() for x in frames.split(self.sizes, -1))
        pixels = picture.view(self.dtype).view(-1, *self.shape)
        return torch.cat([self.picture(pixels), self.vector(vector.view(torch.float32))], -1)


def body(
    spec: EnvSpec, network: str = "a3c", layer_norm: LayerNorm = "none", hidden: tuple[int, ...] = (),
    activation: str = "", normalize: bool = False,
) -> tuple[nn.Module, int]:  # fmt: skip
    """The module that computes features from observations, and the number of features. `hidden` are the widths of its
    fully connected layers, by default those of the network: none after a user's module, two for vectors."""
    cls = find_network(network)
    if spec.is_image and issubclass(cls, ConvNet) and not hidden and not activation:
        net = _convolutions(cls, spec, layer_norm=layer_norm)
        return net, net.out_features
    front, features, widths = _front(spec, network, layer_norm, OF_VECTORS)
    layers, features = _with_layers(front, features, hidden or widths, layer_norm, activation)
    return _normalized(layers, spec, normalize), features


def body_of_streams(
    spec: EnvSpec, network: str, layer_norm: LayerNorm, hidden: tuple[int, ...], activation: str, normalize: bool,
    default: int,
) -> tuple[nn.Module, int, int]:  # fmt: skip
    """Return `body` without its last fully connected layer, the number of its features, and the width of the missing
    layer (0 after a user's module without layers). Each stream of a dueling network has its own layer in place of the
    missing layer. For vectors, `body` has two layers of the width `default`, unless `hidden` is given."""
    front, features, widths = _front(spec, network, layer_norm, (default, default))
    *first, last = hidden or widths or (0,)
    net, features = _with_layers(front, features, tuple(first), layer_norm, activation)
    return _normalized(net, spec, normalize), features, last


def _normalized(net: nn.Module, spec: EnvSpec, normalize: bool) -> nn.Module:
    return nn.Sequential(RunningNorm(_size(spec)), net) if normalize and spec.picture is None else net


def _front(
    spec: EnvSpec, network: str, layer_norm: LayerNorm, of_vectors: tuple[int, ...]
) -> tuple[nn.Module | None, int, tuple[int, ...]]:
    """The module before the fully connected layers (None for vectors), the number of its features, and the default
    widths of the layers."""
    cls = find_network(network)
    if spec.picture_shape and (picture := spec.picture):
        mixed = MixedNet(picture, spec, network, layer_norm)
        return mixed, mixed.out_features, mixed.widths
    if not issubclass(cls, ConvNet):
        users = UsersNet(network, spec)
        return users, users.out_features, ()
    if not spec.is_image:
        return None, _size(spec), of_vectors
    net = _convolutions(cls, spec, hidden=0, layer_norm=layer_norm)
    return net, net.out_features, (cls.hidden,)


def _with_layers(
    front: nn.Module | None, features: int, hidden: tuple[int, ...], layer_norm: LayerNorm, activation: str
) -> tuple[nn.Module, int]:
    if front is not None and not hidden:
        return front, features
    mlp = MLP(features, hidden, layer_norm, activation or ("tanh" if front is None else "relu"))
    return mlp if front is None else nn.Sequential(front, mlp), mlp.out_features


def _convolutions(cls: type[ConvNet], spec: EnvSpec, **options: Any) -> ConvNet:
    height, width = spec.frame_shape[-2:]
    return cls(spec.channels, height, width, **options)


def _size(spec: EnvSpec) -> int:
    """Number of values of a vector observation."""
    return math.prod(spec.frame_shape) * spec.stack
