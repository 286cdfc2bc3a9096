"""Tensors are stored in the format of safetensors. The package safetensors is imported only when a checkpoint is
written or read."""

from collections.abc import Mapping

from torch import Tensor


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    from safetensors import torch

    # The file format has no strides, so tensors are made contiguous.
    complete = {name: x.contiguous() for name, x in tensors.items()}
    return torch.save(complete, None if metadata is None else dict(metadata))


def load(data: bytes) -> dict[str, Tensor]:
    from safetensors import torch

    return torch.load(data)
