"""Pictures in the memory order that convolutions read."""

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.call_graph import call


def in_planes(pictures: Tensor) -> Tensor:
    """pictures [N, S, H, W] with each picture contiguous; the pictures may lie apart, as windows of a replay do."""
    return pictures if _has_planes(pictures) else pictures.contiguous()


def _has_planes(pictures: Tensor) -> bool:
    _, _, height, width = pictures.shape
    return pictures.stride()[1:] == (height * width, width, 1)


def channels_last(pictures: Tensor, dtype: torch.dtype) -> Tensor:
    """pictures [N, S, H, W] uint8 -> the same numbers as dtype, channels-last in memory.

    In one pass for contiguous planes on the CPU to float32 or bfloat16.
    """
    n, stack, height, width = pictures.shape
    planes = _has_planes(pictures) and stack > 1
    known = pictures.device.type == "cpu" and dtype in (torch.float32, torch.bfloat16)
    module = native.compiled() if planes and known else None
    if module is None:
        return pictures.to(dtype, memory_format=torch.channels_last)
    out = torch.empty(pictures.shape, dtype=dtype, memory_format=torch.channels_last)
    source, bfloat16 = (pictures, pictures.stride(0)), dtype == torch.bfloat16
    call(module, "channels_last", n, stack, height * width, *source, out, bfloat16, torch.get_num_threads())
    return out
