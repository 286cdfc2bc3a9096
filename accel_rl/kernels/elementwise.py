"""Element-wise operations between the layers of a network, in compiled calls that a call graph can hold."""

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.call_graph import call


def relu_(x: Tensor) -> Tensor:
    """max(x, 0) in place. x [...]"""
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
    module = native.compiled() if plain and not (torch.is_grad_enabled() and x.requires_grad) else None
    if module is None:
        return torch.relu_(x)
    call(module, "relu", x.numel(), x)
    return x


def copy_(out: Tensor, source: Tensor) -> None:
    """Copy source [n] to out [n]."""
    module = native.compiled() if _are_alike(out, source) else None
    if module is None:
        out.copy_(source)
    else:
        call(module, "copy", source.nbytes, source, out)


def _are_alike(out: Tensor, source: Tensor) -> bool:
    same = (out.device.type, out.dtype, out.shape) == ("cpu", source.dtype, source.shape)
    return same and source.device.type == "cpu" and out.is_contiguous() and source.is_contiguous()
