"""Random numbers that are functions of counters."""

import torch
from torch import Tensor

# The multipliers and shifts are those of splitmix64's finaliser (Steele et al. 2014), as signed 64-bit numbers.
_STEP = -0x61C8864680B583EB
_MIX_1 = -0x40A7B892E31B1A47
_MIX_2 = -0x6B2FB644ECCEEE15


def hashed_uniform(counter: Tensor) -> Tensor:
    """Numbers in (0, 1), float64, from counters [...] int64."""
    x = counter * _STEP
    x = (x ^ _shifted(x, 30)) * _MIX_1
    x = (x ^ _shifted(x, 27)) * _MIX_2
    x = x ^ _shifted(x, 31)
    return (_shifted(x, 11).double() + 0.5) * 2.0**-53


def hashed_normal(counter: Tensor) -> Tensor:
    """Numbers of the standard normal distribution, float32, from counters [...] int64."""
    return (torch.erfinv(2 * hashed_uniform(counter) - 1) * 2**0.5).float()


def _shifted(x: Tensor, bits: int) -> Tensor:
    """A logical shift of int64 numbers, which fills with zeros."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
