"""Linear layers whose weights carry learned noise (Fortunato et al. 2018, arXiv:1706.10295)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accel_rl.ops.hashed_noise import hashed_normal


class NoisyLinear(nn.Linear):
    """y = (mu_w + sigma_w * f(e_out) f(e_in)^T) x + mu_b + sigma_b * f(e_out), factorised noise, eq. 9 to 11.

    The weights of `nn.Linear` are the means. `resample` draws new noise, which is used until the next call.
    """

    def __init__(self, inputs: int, outputs: int, sigma: float = 0.5):
        super().__init__(inputs, outputs)
        bound = 1 / math.sqrt(inputs)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)
        self.sigma_weight = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.sigma_bias = nn.Parameter(torch.full((outputs,), sigma * bound))
        self.register_buffer("noise_in", torch.zeros(inputs), persistent=False)
        self.register_buffer("noise_out", torch.zeros(outputs), persistent=False)

    @torch.no_grad()
    def resample(self, seed: Tensor | None = None) -> None:
        """Draw new noise: from torch's default generator, or as a function of a seed [] int64."""
        for i, noise in enumerate((self.noise_in, self.noise_out)):
            assert isinstance(noise, Tensor)
            if seed is None:
                x = torch.randn(noise.shape, device=noise.device)
            else:
                x = hashed_normal(2 * seed + i, len(noise))
            noise.copy_(x.sign() * x.abs().sqrt())

    def forward(self, x: Tensor, noisy: bool = True) -> Tensor:
        if not noisy:
            return super().forward(x)
        assert isinstance(self.noise_in, Tensor) and isinstance(self.noise_out, Tensor)
        weight = self.weight + self.sigma_weight * torch.outer(self.noise_out, self.noise_in)
        return F.linear(x, weight, self.bias + self.sigma_bias * self.noise_out)
