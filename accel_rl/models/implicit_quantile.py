"""A network that computes any quantile of the returns of actions (Dabney et al. 2018, arXiv:1806.06923)."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.q_network import QNetwork
from accel_rl.ops.q_learning import dueling
from accel_rl.ops.quantiles import midpoints
from accel_rl.ops.random_numbers import hashed_uniform

STREAMS = 4
"""Number of independent streams of random fractions tau for each seed."""


class CosineEmbedding(nn.Module):
    """ReLU(sum_i w_ij cos(pi i tau) + b_j) from tau [N, n] (eq. 4), [N, n, features].

    In the paper, i runs from 0 to `cosines` - 1. In the authors' code, i begins at 1, because cos(0) is the same for
    all tau.
    """

    def __init__(self, features: int, cosines: int, first: int):
        super().__init__()
        self.linear = nn.Linear(cosines, features)
        self.frequency: Tensor
        self.register_buffer("frequency", math.pi * torch.arange(first, first + cosines), persistent=False)

    def forward(self, tau: Tensor) -> Tensor:
        return torch.relu(self.linear(torch.cos(tau[..., None] * self.frequency)))


class ImplicitQuantileNetwork(QNetwork):
    """Computes the return's quantile at each fraction tau, from the product of the features of obs and an embedding of
    tau.

    A random fraction is a function of a seed (`resample`), of its index in the batch, and of `stream`. The value of an
    action is the mean of the quantiles at `samples` random fractions. Without noise, the fractions are the midpoints of
    equal intervals. The gradient from dueling streams into the features is not scaled (Clark et al. 2024).
    """

    def __init__(self, spec: EnvSpec, network: str, samples: int, cosines: int, first_cosine: int, **options: Any):
        super().__init__(spec, network, **options)
        self.samples = samples
        self.noisy = True
        self.embedding = CosineEmbedding(self.advantage.inputs, cosines, first_cosine)
        self.tau_seed: Tensor
        self.register_buffer("tau_seed", torch.zeros((), dtype=torch.int64), persistent=False)

    def tau(self, N: int, n: int, stream: int) -> Tensor:
        """Random fractions [N, n], uniform in (0, 1)."""
        number = torch.arange(N * n, device=self.tau_seed.device).view(N, n)
        # Products of seeds, which are up to 2^62, wrap around in int64, and are equally random.
        return hashed_uniform(number + ((self.tau_seed * STREAMS + stream) << 24)).float()

    def quantiles(self, features: Tensor, tau: Tensor, noise: bool = True) -> Tensor:
        """Quantiles [N, A, n] at the fractions tau [N, n], from features [N, F] of `body`."""
        x = (features[:, None] * self.embedding(tau)).flatten(0, 1)
        out = self.advantage(x, noise)
        if self.value is not None:
            out = dueling(self.value(x, noise), out)
        return out.view(*tau.shape, self.n_actions).transpose(1, 2)

    def mean(self, features: Tensor, stream: int, noise: bool = True) -> Tensor:
        """Values of actions [N, A]."""
        if noise:
            tau = self.tau(len(features), self.samples, stream)
        else:
            tau = midpoints(self.samples, features.device).expand(len(features), -1)
        return self.quantiles(features, tau, noise).mean(-1)

    def q(self, obs: Tensor, noise: bool = True) -> Tensor:
        return self.mean(self.body(obs), 0, noise)

    forward = q

    def resample(self, seed: Tensor) -> None:
        self.tau_seed.copy_(seed)
        if self._noisy_layers():
            super().resample(seed)
