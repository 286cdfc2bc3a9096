"""A fully connected layer of few rows in float32, compiled for AVX-512."""

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.call_graph import call

MOST_ROWS = 64  # kernels/src/linear_small_batch.h
LEAST_COLUMNS = 256  # below, a library's call takes no time either


def linear_small_batch(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor | None = None) -> Tensor | None:
    """x [N, F] weight [G, F]' + bias [G] -> [N, G], in `out` if given.

    A row has the same bits however many are beside it, and whatever the threads: groups of any size play alike. None
    where it is not compiled, for other than few rows, float32 on the host in one piece and F a large multiple of 16,
    and where a gradient is asked for.
    """
    if len(x) > MOST_ROWS or x.shape[1] < LEAST_COLUMNS or x.shape[1] % 16:
        return None
    given = (x, weight, bias) if out is None else (x, weight, bias, out)
    if not all(map(_plain, given)) or (torch.is_grad_enabled() and any(g.requires_grad for g in given)):
        return None
    module = native.compiled()
    if module is None or not module.has_conv_u8():
        return None
    out = torch.empty(len(x), len(weight)) if out is None else out
    call(module, "linear_small_batch", *x.shape, len(weight), x, weight, bias, out, torch.get_num_threads())
    return out


def _plain(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
