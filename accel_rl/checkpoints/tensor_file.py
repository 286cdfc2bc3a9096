"""Tensors in files in the format of safetensors. The package safetensors is imported only when a file is written or
read."""

import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

_COPIES = 3  # safetensors copies all bytes to Rust's memory, and then to a bytes object.


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a file with the given tensors. Raises OSError if the memory is too small."""
    from safetensors import torch

    # The file format has no strides, so tensors are made contiguous.
    complete = {name: x.contiguous() for name, x in tensors.items()}
    # safetensors aborts the process if it cannot allocate memory.
    # Allocating and releasing the memory before the call raises an error if memory is lacking.
    with mmap.mmap(-1, 2**20 + _COPIES * sum(x.nbytes for x in complete.values())):
        pass
    return torch.save(complete, None if metadata is None else dict(metadata))


def load(data: bytes) -> dict[str, Tensor]:
    from safetensors import torch

    return torch.load(data)


@dataclass(frozen=True, slots=True)
class Segment:
    """A named set of tensors. Checkpoints that contain the same segment share one file. `load` returns the tensors from
    memory or, after a resume, from the verified file."""

    name: str
    load: Callable[[], dict[str, Tensor]]
    checksum: str = ""
    """The sha256 of the segment's file, or empty if the segment was never saved."""
