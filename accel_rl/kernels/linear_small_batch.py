"""A fully connected layer of few rows in float32, compiled for AVX-512."""

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.call import call

MAX_ROWS = 64  # src/nn/linear_small_batch.h
MIN_COLUMNS = 256  # narrower layers take a library no time either


def linear_small_batch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor | None:
    """x [N, F] weight [G, F]' + bias [G] -> [N, G].

    Each output row is bitwise identical for any batch size and number of threads. Returns None, and computes nothing,
    unless N is at most 64, F a large multiple of 16, everything contiguous float32 on a CPU with AVX-512, and no
    gradient wanted.
    """
    if len(x) > MAX_ROWS or x.shape[1] < MIN_COLUMNS or x.shape[1] % 16:
        return None
    given = x, weight, bias
    if not all(map(_is_plain, given)) or (torch.is_grad_enabled() and any(g.requires_grad for g in given)):
        return None
    module = native.compiled()
    if module is None or not module.has_avx512():
        return None
    out = torch.empty(len(x), len(weight))
    call(module, "linear_small_batch", *x.shape, len(weight), x, weight, bias, out, torch.get_num_threads())
    return out


def _is_plain(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
