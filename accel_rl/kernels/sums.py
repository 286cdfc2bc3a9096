"""Sums over flat vectors: the norm of a gradient, the weighted sum of several."""

import math

import torch
from torch import Tensor

from accel_rl.kernels import native


def l2_norm(x: Tensor) -> float | None:
    """Of x [n] float32 on the host, by all threads, the same bits however many; None where it is not compiled."""
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
    module = native.compiled() if plain else None
    return None if module is None else math.sqrt(module.sum_of_squares(x.data_ptr(), len(x), torch.get_num_threads()))


def weighted_sum(parts: list[Tensor], weights: list[float], out: Tensor) -> float:
    """out [n] = the parts [n] (float32, on the host, in one piece each), weighted, added up in their order.

    Returns the sum of its squares. In one pass over the memory where it is compiled.
    """
    module = native.compiled()
    if module is not None:
        return float(module.weighted_sum([p.data_ptr() for p in parts], weights, out.data_ptr(), len(out)))
    torch.mul(parts[0], weights[0], out=out)
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        out.add_(part, alpha=weight)
    return float(out.double().square().sum())
