"""The ReLU between the layers of a network."""

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.call import call


def relu_(x: Tensor) -> Tensor:
    """max(x, 0) in place. x [...]"""
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
    module = native.compiled() if plain and not (torch.is_grad_enabled() and x.requires_grad) else None
    if module is None:
        return torch.relu_(x)
    call(module, "relu", x.numel(), x)
    return x
