"""The weights of a noisy linear layer have learned noise (Fortunato et al. 2018, arXiv:1706.10295)."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accel_rl.ops.random_numbers import hashed_normal


class NoisyLinear(nn.Linear):
    """Computes y = (mu_w + sigma_w * f(e_out) f(e_in)^T) x + mu_b + sigma_b * f(e_out), with factorised noise
    (Fortunato et al. 2018, eq. 9 to 11). The weights of the base class `nn.Linear` are the means of the noisy weights.
    The noise f(e_in) and f(e_out) is zero until `draw_noise` draws it."""

    def __init__(self, inputs: int, outputs: int, sigma: float = 0.5):
        super().__init__(inputs, outputs)
        bound = 1 / math.sqrt(inputs)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)
        self.sigma_weight = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.sigma_bias = nn.Parameter(torch.full((outputs,), sigma * bound))
        self.noise_in: Tensor
        self.noise_out: Tensor
        self.register_buffer("noise_in", torch.zeros(inputs), persistent=False)
        self.register_buffer("noise_out", torch.zeros(outputs), persistent=False)

    def forward(self, x: Tensor, noisy: bool = True) -> Tensor:
        y = super().forward(x)
        if not noisy:
            return y
        # For each batch, two products with x [N, inputs] take less time than adding noise to the weights.
        return y + self.noise_out * F.linear(x * self.noise_in, self.sigma_weight, self.sigma_bias)


def noise_counters(layers: Sequence[NoisyLinear]) -> tuple[Tensor, Tensor]:
    """(first, stride), [E] int64 each, for the E random numbers from which all layers' noise is computed. With seed s,
    number e is a function of the counter first[e] + s stride[e]. Vector j (0: e_in, 1: e_out) of layer i of L, with n
    numbers, has the seed 2 (s L + i) + j, and uses n consecutive counters."""
    first, stride = list[Tensor](), list[Tensor]()
    for i, layer in enumerate(layers):
        for j, noise in enumerate((layer.noise_in, layer.noise_out)):
            n = len(noise)
            first.append(torch.arange(1, n + 1) + (2 * i + j) * n)
            stride.append(torch.full((n,), 2 * len(layers) * n))
    return torch.cat(first), torch.cat(stride)


@torch.no_grad()
def draw_noise(layers: Sequence[NoisyLinear], counter: Tensor) -> None:
    """`counter` is [E] int64. The noise of all layers is drawn together, because drawing takes 36 GPU operations, which
    would otherwise be repeated for each vector of noise."""
    x = hashed_normal(counter)
    noises = [noise for layer in layers for noise in (layer.noise_in, layer.noise_out)]
    torch._foreach_copy_(noises, (x.sign() * x.abs().sqrt()).split([len(noise) for noise in noises]))
