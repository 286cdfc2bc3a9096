"""A piece of a large state that is written once and never changes."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Segment:
    """Tensors under a name. Checkpoints that hold the same segment share one file of it.

    `load` gives the tensors: out of memory when it is saved, out of the (verified) file after a resume.
    """

    name: str
    load: Callable[[], dict[str, Tensor]]
    checksum: str = ""
    """sha256 of the file it was read from; empty for one that was never saved."""
