"""Tensors are stored in files in the format of safetensors. The package safetensors is imported only when a file is
written or read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    from safetensors import torch

    # The file format has no strides, so tensors are made contiguous.
    complete = {name: x.contiguous() for name, x in tensors.items()}
    return torch.save(complete, None if metadata is None else dict(metadata))


def load(data: bytes) -> dict[str, Tensor]:
    from safetensors import torch

    return torch.load(data)


@dataclass(frozen=True, slots=True)
class Segment:
    """A `Segment` is a named set of tensors. Checkpoints that contain the same segment share one file. `load` returns
    the tensors from memory or, after a resume, from the verified file."""

    name: str
    load: Callable[[], dict[str, Tensor]]
    checksum: str = ""
    """`checksum` is the sha256 of the segment's file, or empty if the segment was never saved."""
