"""A `StaticBatch` has a fixed address, to which each batch of the same kind is copied for a replayed update."""

import copy
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor


def kind_of(batch: Any, device: str) -> Hashable | None:
    """Return a key that identifies the kind of a batch: types, shapes, dtypes, numbers, and which parts are None. One
    captured update can read all batches of a kind. Returns None if a part of the batch is on another device or cannot
    be copied. `device` is the type of the tensors' device."""
    if isinstance(batch, Tensor):
        same = batch.device.type == device
        return (tuple(batch.shape), tuple(batch.stride()), batch.dtype) if same else None
    if batch is None or isinstance(batch, bool | int | float | str):
        return type(batch), batch
    parts = _parts(batch)
    if parts is None:
        return None
    kinds = tuple((name, kind_of(part, device)) for name, part in parts.items())
    return None if any(kind is None for _, kind in kinds) else (type(batch), kinds)


class StaticBatch:
    """A `StaticBatch` is a copy of a batch at a fixed address. A replayed update reads `batch`, whose tensors `load`
    overwrites."""

    def __init__(self, batch: Any):
        self._tensors: list[Tensor] = []
        self.batch = _mapped(batch, self._cloned)

    def _cloned(self, x: Tensor) -> Tensor:
        self._tensors.append(x.detach().clone())
        return self._tensors[-1]

    def load(self, batch: Any) -> None:
        """Copy a batch of the same kind to the fixed address."""
        tensors: list[Tensor] = []
        _mapped(batch, lambda x: tensors.append(x) or x)  # type: ignore[func-returns-value]
        for static, x in zip(self._tensors, tensors, strict=True):
            static.copy_(x)


def _parts(batch: Any) -> dict[Any, Any] | None:
    if is_dataclass(batch) and not isinstance(batch, type):
        return {f.name: getattr(batch, f.name) for f in fields(batch)}
    if isinstance(batch, dict):
        return dict(batch)
    if isinstance(batch, tuple | list):
        return dict(enumerate(batch))
    return None


def _mapped(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a batch whose tensors are replaced by a function of them. The constructors of the batch's dataclasses are
    not called."""
    if isinstance(batch, Tensor):
        return change(batch)
    parts = _parts(batch)
    if parts is None:
        return batch
    changed = {name: _mapped(part, change) for name, part in parts.items()}
    if isinstance(batch, dict):
        return changed
    if isinstance(batch, tuple | list):
        return type(batch)(*changed.values()) if hasattr(batch, "_fields") else type(batch)(changed.values())
    result = copy.copy(batch)
    for name, part in changed.items():
        object.__setattr__(result, name, part)
    return result
