"""The fully connected layers of the networks."""

import math
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from accel_rl.kernels.activations import layer_norm, relu_
from accel_rl.kernels.linear import head_linear, hidden_linear

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)
LayerNorm = Literal["none", "before", "after", "before-channels"]
"""The networks have a layer norm (Ba et al. 2016, arXiv:1607.06450), over all features of a layer, before or after each
activation, or no layer norm (`none`). With `before-channels`, a norm is over the channels of each pixel, as in flax."""


def orthogonal_(layer: Layer, gain: float) -> Layer:
    """Orthogonal weights (Saxe et al. 2014) and zero biases."""
    if not layer.weight.is_meta:  # For a meta tensor, which has no values, torch 2.11 would import its compiler.
        nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def variance_scaling_(
    layer: Layer, scale: float, mode: Literal["fan_in", "fan_avg"], distribution: Literal["normal", "uniform"]
) -> Layer:
    """Random weights with variance scale / fan, and zero biases, as in jax.nn.initializers. A normal distribution is
    cut at two standard deviations. With `fan_avg`, the fan is the mean of inputs and outputs."""
    inputs, area = layer.weight.shape[1], layer.weight[0, 0].numel()
    fan = area * (inputs if mode == "fan_in" else (inputs + layer.weight.shape[0]) / 2)
    std = math.sqrt(scale / fan)
    if not layer.weight.is_meta:
        if distribution == "uniform":
            nn.init.uniform_(layer.weight, -math.sqrt(3) * std, math.sqrt(3) * std)
        else:
            std /= 0.87962566103423978  # Standard deviation of a standard normal distribution that is cut at +- 2
            nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def lstm_(cell: nn.LSTMCell) -> nn.LSTMCell:
    """Initialize an LSTM with orthogonal weights, and with zero biases except for a forget bias of 1 (Jozefowicz et al.
    2015). With a forget bias of 0, an LSTM cell's memory halves in each step, and gradients do not reach back ten
    steps."""
    for name, p in cell.named_parameters():
        if name.startswith("weight"):
            nn.init.orthogonal_(p)
        else:
            nn.init.zeros_(p)
    assert isinstance(cell.bias_ih, nn.Parameter)
    with torch.no_grad():
        # In torch, the gates of an LSTM are in the order input, forget, cell, output.
        cell.bias_ih[cell.hidden_size : 2 * cell.hidden_size] = 1
    return cell


class RunningNorm(nn.Module):
    """(x - mean) / deviation of x [N, F], clipped to +- 10, with the mean and the standard deviation of all x in
    updates so far. In train mode, mean and deviation are updated after the result is computed."""

    has_mode = True

    def __init__(self, features: int):
        super().__init__()
        self.mean: Tensor
        self.variance: Tensor
        self.count: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        x = x.float().flatten(1)
        result = ((x - self.mean) / (self.variance + 1e-8).sqrt()).clamp(-10, 10)
        if self.training:
            self._add(x.detach())
        return result

    def _add(self, x: Tensor) -> None:
        """Update mean and variance with the numbers of a new batch (Chan et al. 1979)."""
        n, total = len(x), self.count + len(x)
        share = n / total
        delta = x.mean(0) - self.mean
        spread = self.variance * (1 - share) + x.var(0, correction=0) * share + delta.square() * share * (1 - share)
        self.mean.add_(delta * share)
        self.variance.copy_(spread)
        self.count.copy_(total)


class Norm(nn.LayerNorm):
    """A layer norm over the last axes of x [N, *shape]."""

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class ChannelNorm(Norm):
    """A layer norm over the last axis of x [N, H, W, C], with flax's epsilon."""

    def __init__(self, channels: int):
        super().__init__(channels, eps=1e-6)


class NormedReLU(nn.Module):
    """A ReLU with a layer norm before or after it, or without a layer norm. The norm is over `shape`, or over the last
    axis of `shape`. `NormedReLU` may overwrite its input x [N, *shape]."""

    def __init__(self, shape: tuple[int, ...], layer_norm: LayerNorm):
        super().__init__()
        self.before = Norm(shape) if layer_norm == "before" else None
        if layer_norm == "before-channels":
            self.before = ChannelNorm(shape[-1])
        self.after = Norm(shape) if layer_norm == "after" else None

    def forward(self, x: Tensor) -> Tensor:
        x = relu_(x if self.before is None else self.before(x))
        return x if self.after is None else self.after(x)


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU, "tanh": nn.Tanh, "elu": nn.ELU, "gelu": nn.GELU, "silu": nn.SiLU
}  # fmt: skip


def activated(width: int, layer_norm: LayerNorm, activation: str) -> list[nn.Module]:
    """The modules after a fully connected layer: an activation, with a layer norm before or after it, or without a
    layer norm."""
    layers: list[nn.Module] = [ACTIVATIONS[activation]()]
    if layer_norm in ("before", "before-channels"):
        layers.insert(0, nn.LayerNorm(width) if layer_norm == "before" else ChannelNorm(width))
    elif layer_norm == "after":
        layers.append(nn.LayerNorm(width))
    return layers


class MLP(nn.Module):
    """Fully connected layers, from obs [N, features] float to [N, hidden[-1]]."""

    def __init__(
        self, features: int, hidden: tuple[int, ...] = (64, 64), layer_norm: LayerNorm = "none",
        activation: str = "tanh",
    ):  # fmt: skip
        super().__init__()
        sizes = (features, *hidden)
        layers: list[nn.Module] = []
        for i, o in zip(sizes, hidden, strict=False):
            layers += [orthogonal_(nn.Linear(i, o), math.sqrt(2)), *activated(o, layer_norm, activation)]
        self.layers = nn.Sequential(*layers)
        self.out_features = sizes[-1]

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs.flatten(1))


class Linear(nn.Linear):
    """A fully connected hidden layer, from x [N, F] to [N, G]."""

    def forward(self, x: Tensor) -> Tensor:
        return hidden_linear(x, self.weight, self.bias)


class Head(nn.Linear):
    """The last layer of a network, from x [N, F] to [N, G]."""

    def forward(self, x: Tensor) -> Tensor:
        return head_linear(x, self.weight, self.bias)
