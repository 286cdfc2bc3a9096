"""The weights of a noisy linear layer have learned noise (Fortunato et al. 2018, arXiv:1706.10295)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# The multipliers and shifts are those of splitmix64's finaliser (Steele et al. 2014), as signed 64-bit numbers.
_STEP = -0x61C8864680B583EB
_MIX_1 = -0x40A7B892E31B1A47
_MIX_2 = -0x6B2FB644ECCEEE15


def hashed_uniform(seed: Tensor, n: int) -> Tensor:
    """Return n numbers in (0, 1), float64, from a seed [] int64."""
    x = (torch.arange(1, n + 1, device=seed.device) + seed * n) * _STEP
    x = (x ^ _shifted(x, 30)) * _MIX_1
    x = (x ^ _shifted(x, 27)) * _MIX_2
    x = x ^ _shifted(x, 31)
    return (_shifted(x, 11).double() + 0.5) * 2.0**-53


def hashed_normal(seed: Tensor, n: int) -> Tensor:
    """Return n numbers of the standard normal distribution, float32, from a seed [] int64."""
    return (torch.erfinv(2 * hashed_uniform(seed, n) - 1) * 2**0.5).float()


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift int64 numbers right by some bits, and fill with zeros."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


class NoisyLinear(nn.Linear):
    """Computes y = (mu_w + sigma_w * f(e_out) f(e_in)^T) x + mu_b + sigma_b * f(e_out), with factorised noise
    (Fortunato et al. 2018, eq. 9 to 11). The weights of the base class `nn.Linear` are the means of the noisy weights.
    `resample` draws new noise, which the layer uses until the next `resample`."""

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
    def resample(self, seed: Tensor) -> None:
        """Draw new noise as a function of a seed [] int64."""
        for i, noise in enumerate((self.noise_in, self.noise_out)):
            assert isinstance(noise, Tensor)
            x = hashed_normal(2 * seed + i, len(noise))
            noise.copy_(x.sign() * x.abs().sqrt())

    def forward(self, x: Tensor, noisy: bool = True) -> Tensor:
        if not noisy:
            return super().forward(x)
        assert isinstance(self.noise_in, Tensor) and isinstance(self.noise_out, Tensor)
        weight = self.weight + self.sigma_weight * torch.outer(self.noise_out, self.noise_in)
        return F.linear(x, weight, self.bias + self.sigma_bias * self.noise_out)
