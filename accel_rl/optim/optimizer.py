"""The interface of optimizers on flat parameters."""

from typing import Any, Protocol

import torch
from torch import Tensor

ALIGNMENT = 64
"""Slices of the parameters are aligned to 64 floats. Updating a slice that begins at a multiple of ALIGNMENT gives the
same bits as updating the whole vector. At other boundaries, scalar instructions process the end of the slice, and round
differently from vector instructions."""
# A piece of a vector has 256 KiB, so that pieces of four vectors fit in a core's second-level cache.
_PIECE = 1024 * ALIGNMENT

Rate = float | Tensor
"""A learning rate is a number, or a scalar [] on the GPU, where a captured update reads its current value."""


def found_inf(finite: Tensor) -> Tensor:
    """1 if an update is skipped, and otherwise 0, as [] float32, which torch's fused optimizers call found_inf.
    `finite` [] bool is the argument of `Optimizer.step`."""
    return torch.logical_not(finite, out=torch.empty_like(finite, dtype=torch.float32))


class Optimizer(Protocol):
    """Updates parameters [P] in place from their gradient [P]. The state consists of flat vectors."""

    def step(self, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None = None) -> None:
        """`finite` [] bool, on a GPU, is true if loss and gradient are finite; the host does not know its value. If
        `finite` is false, the gradient is all zeros, and parameters and state must not change. If `finite` is None,
        loss and gradient are finite."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class ElementWise:
    """Base class of element-wise optimizers. On a CPU the vectors are updated in pieces that fit in the cache."""

    def step(self, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None = None) -> None:
        size = len(data)
        piece = _PIECE * torch.get_num_threads() if data.device.type == "cpu" else max(size, 1)
        for begin in range(0, size, piece):
            part = slice(begin, min(begin + piece, size))
            self._update(part, data[part], grad[part], learning_rate, finite)

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None) -> None:
        """`data` and `grad` are the slices `part` of the flat vectors."""
        raise NotImplementedError
