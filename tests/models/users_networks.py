"""Examples of a user's own torch modules, some of which have a mistake that accel_rl reports."""

import torch
from torch import Tensor, nn


class Pictures(nn.Module):
    """A convolution, and a lazy linear layer, whose number of inputs is determined by the first forward pass."""

    def __init__(self, shape: tuple[int, ...], channels: int = 4):
        super().__init__()
        self.conv = nn.Conv2d(shape[0], channels, 3, 2)
        self.dense = nn.LazyLinear(24)

    def forward(self, obs: Tensor) -> Tensor:
        assert obs.dtype == torch.float32 and obs.min() >= 0 and obs.max() <= 1
        return torch.relu(self.dense(torch.relu(self.conv(obs)).flatten(1)))


class Vectors(nn.Module):
    def __init__(self, shape: tuple[int, ...], width: int = 32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(shape[0], width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs)


class Given(nn.Module):
    """A module whose forward applies the function RESULTS[result] to its input."""

    def __init__(self, shape: tuple[int, ...], result: str):
        super().__init__()
        self.result = result

    def forward(self, x: Tensor) -> object:
        return RESULTS[self.result](x)


RESULTS = {
    "pair": lambda x: (x, x),
    "one axis": lambda x: x.flatten(),
    "no features": lambda x: x[:, :0],
    "float64": lambda x: x.double(),
    "NaN": lambda x: x / x,
    "error": lambda x: x @ x,
}


class WithoutShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()


class NoModule:
    pass
