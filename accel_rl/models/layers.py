"""The fully connected layers of the networks."""

import math
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from accel_rl.kernels.activations import layer_norm, relu_
from accel_rl.kernels.linear import head_linear, hidden_linear

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)
LayerNorm = Literal["none", "before", "after"]
"""The networks have a layer norm (Ba et al. 2016, arXiv:1607.06450), over all features of a layer, before or after each
activation, or no layer norm (`none`)."""


def orthogonal_(layer: Layer, gain: float) -> Layer:
    """Orthogonal weights (Saxe et al. 2014) and zero biases."""
    if not layer.weight.is_meta:  # Without memory there is nothing to set, and torch 2.11 would import its compiler.
        nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def lstm_(cell: nn.LSTMCell) -> nn.LSTMCell:
    """Orthogonal weights and zero biases, except for a bias of 1 at the forget gate (Jozefowicz et al. 2015). With a
    forget bias of 0, an LSTM cell's memory halves in each step, and gradients do not reach back ten steps."""
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


class Norm(nn.LayerNorm):
    """The norm is over the last axes of x [N, *shape]."""

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class NormedReLU(nn.Module):
    """A layer norm over `shape` before or after the ReLU, or none. May overwrite its input x [N, *shape]."""

    def __init__(self, shape: tuple[int, ...], layer_norm: LayerNorm):
        super().__init__()
        self.before = Norm(shape) if layer_norm == "before" else None
        self.after = Norm(shape) if layer_norm == "after" else None

    def forward(self, x: Tensor) -> Tensor:
        x = relu_(x if self.before is None else self.before(x))
        return x if self.after is None else self.after(x)


class MLP(nn.Module):
    """Fully connected layers with tanh, from obs [N, features] float to [N, hidden[-1]]."""

    def __init__(self, features: int, hidden: tuple[int, ...] = (64, 64), layer_norm: LayerNorm = "none"):
        super().__init__()
        sizes = (features, *hidden)
        layers: list[nn.Module] = []
        for i, o in zip(sizes, hidden, strict=False):
            layers.append(orthogonal_(nn.Linear(i, o), math.sqrt(2)))
            if layer_norm == "before":
                layers.append(nn.LayerNorm(o))
            layers.append(nn.Tanh())
            if layer_norm == "after":
                layers.append(nn.LayerNorm(o))
        self.layers = nn.Sequential(*layers)
        self.out_features = hidden[-1]

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs.flatten(1))


class Linear(nn.Linear):
    """A wide hidden layer, from x [N, F] to [N, G]."""

    def forward(self, x: Tensor) -> Tensor:
        return hidden_linear(x, self.weight, self.bias)


class Head(nn.Linear):
    """The last layer of a network, from x [N, F] to [N, G]."""

    def forward(self, x: Tensor) -> Tensor:
        return head_linear(x, self.weight, self.bias)
