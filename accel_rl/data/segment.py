"""A segment is a piece of a large state that is written once and never changes."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Segment:
    """A `Segment` is a named set of tensors. Checkpoints that contain the same segment share one file. `load` returns
    the tensors from memory or, after a resume, from the verified file."""

    name: str
    load: Callable[[], dict[str, Tensor]]
    checksum: str = ""
    """`checksum` is the sha256 of the segment's file, or empty if the segment was never saved."""
