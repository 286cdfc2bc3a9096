"""Tensors as bytes in the format of safetensors, which is imported only where a checkpoint is written or read."""

from collections.abc import Mapping

from torch import Tensor


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    from safetensors import torch

    complete = {name: x.contiguous() for name, x in tensors.items()}  # strides are not part of the format
    return torch.save(complete, None if metadata is None else dict(metadata))


def load(data: bytes) -> dict[str, Tensor]:
    from safetensors import torch

    return torch.load(data)
