"""Fully connected body for vector observations."""

import math

from torch import Tensor, nn

from accel_rl.models.initialize import orthogonal_


class MLP(nn.Module):
    """Hidden layers with tanh. obs [N, features] float -> [N, hidden[-1]]."""

    def __init__(self, features: int, hidden: tuple[int, ...] = (64, 64)):
        super().__init__()
        sizes = (features, *hidden)
        layers: list[nn.Module] = []
        for i, o in zip(sizes, hidden, strict=False):
            layers += [orthogonal_(nn.Linear(i, o), math.sqrt(2)), nn.Tanh()]
        self.layers = nn.Sequential(*layers)
        self.out_features = hidden[-1]

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs.flatten(1))
