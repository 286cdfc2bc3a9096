"""What an optimizer on flat parameters does."""

from typing import Any, Protocol

import torch
from torch import Tensor

ALIGNMENT = 64
"""Floats. A slice that begins at a multiple of it is updated to the same bits as within the whole vector: vector
instructions round differently from the scalar ones at a slice's ragged end."""
_PIECE = 1024 * ALIGNMENT  # 256 KiB of each vector: four of them fit in a core's second-level cache


class Optimizer(Protocol):
    """Changes parameters [P] in place by their gradient [P]; its own state is flat as well."""

    def step(self, data: Tensor, grad: Tensor, learning_rate: float) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class ElementWise:
    """An optimizer that treats each parameter by itself. On a CPU it goes piece by piece, so that a piece stays in the
    cache from one operation to the next."""

    def step(self, data: Tensor, grad: Tensor, learning_rate: float) -> None:
        size = len(data)
        piece = _PIECE * torch.get_num_threads() if data.device.type == "cpu" else max(size, 1)
        for begin in range(0, size, piece):
            part = slice(begin, min(begin + piece, size))
            self._update(part, data[part], grad[part], learning_rate)

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: float) -> None:
        """Update one part; data and grad are the part's own."""
        raise NotImplementedError
