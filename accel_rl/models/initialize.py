"""How weights begin."""

from typing import TypeVar

from torch import nn

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def orthogonal_(layer: Layer, gain: float) -> Layer:
    """Orthogonal weights (Saxe et al. 2014), zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def orthogonal_weights_(cell: nn.LSTMCell) -> nn.LSTMCell:
    """Orthogonal weights, zero bias."""
    for name, p in cell.named_parameters():
        if name.startswith("weight"):
            nn.init.orthogonal_(p)
        else:
            nn.init.zeros_(p)
    return cell
