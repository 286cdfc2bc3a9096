"""Initial weights."""

from typing import TypeVar

import torch
from torch import nn

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def orthogonal_(layer: Layer, gain: float) -> Layer:
    """Orthogonal weights (Saxe et al. 2014), zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def lstm_(cell: nn.LSTMCell) -> nn.LSTMCell:
    """Orthogonal weights, zero bias, but 1 at the forget gate (Jozefowicz et al. 2015).

    At 0 a cell halves its memory in each step, and no gradient comes back from ten steps later.
    """
    for name, p in cell.named_parameters():
        if name.startswith("weight"):
            nn.init.orthogonal_(p)
        else:
            nn.init.zeros_(p)
    assert isinstance(cell.bias_ih, nn.Parameter)
    with torch.no_grad():
        cell.bias_ih[cell.hidden_size : 2 * cell.hidden_size] = 1  # gates are in the order input, forget, cell, output
    return cell
