"""The alignment in memory of operands of matrix products and convolutions.

cuBLAS and cuDNN choose slower kernels for operands that do not begin at a multiple of 16 bytes. CUDA's allocator
returns addresses that are multiples of 512, so that an operand's offset in its allocation determines the alignment. The
simulation records an operand's offset, not the address on the host.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor

from tests.simulated_device import source_lines

PRODUCTS = (
    *("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addbmm", "aten::mv", "aten::addmv"),
    *("aten::convolution", "aten::convolution_backward", "aten::_convolution"),
    *("aten::convolution_overrideable", "aten::convolution_backward_overrideable"),
)
BYTES = 16


class Operand(NamedTuple):
    """A tensor that a matrix product or convolution reads or writes. `offset` is the tensor's offset in its allocation,
    in bytes modulo 16."""

    operation: str
    line: str
    shape: tuple[int, ...]
    offset: int


_open: list[list[Operand]] = []


def is_product(name: str) -> bool:
    return name in PRODUCTS


def note(name: str, tensors: Sequence[Tensor]) -> None:
    """Add the operands of a matrix product or convolution to the lists of all open `operands` contexts."""
    if not _open:
        return
    line = source_lines.text(source_lines.here())
    found = [Operand(name, line, tuple(x.shape), x.storage_offset() * x.element_size() % BYTES) for x in tensors]
    for operands in _open:
        operands += found


@contextmanager
def operands() -> Iterator[list[Operand]]:
    """Yield a list, to which the operands of all matrix products and convolutions in the context are added."""
    operands: list[Operand] = []
    _open.append(operands)
    try:
        yield operands
    finally:
        _open[:] = [x for x in _open if x is not operands]
