"""Random numbers as a pure function of a seed tensor, equal on every device and in every order of calls."""

import torch
from torch import Tensor

# multipliers and shifts of the finaliser of splitmix64 (Steele et al. 2014), as signed 64-bit numbers
_STEP, _MIX_1, _MIX_2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


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
    """Shift int64 numbers right by some bits, with zeros coming in."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
