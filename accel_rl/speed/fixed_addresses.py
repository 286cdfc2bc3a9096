"""Graphs read batches at fixed addresses, to which each batch is copied."""

import copy
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

WORD = 8  # bytes

Path = tuple[Hashable, ...]
"""A `Path` is the sequence of names that leads to a part of a batch."""


def kind_of(batch: Any, device: str) -> Hashable | None:
    """The kind of a batch: the types, shapes and dtypes of its parts, its numbers, and which parts are None. The same
    captured update can be replayed for all batches of a kind. Returns None if a tensor of the batch is not on a device
    of type `device`, or if a part cannot be copied."""
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


class FixedAddresses:
    """A copy of the newest batch of each kind. Parts with the same name and layout share memory. For example, the
    frames of rollouts with and without invalid steps are copied to the same memory."""

    def __init__(self) -> None:
        self._tensors: dict[Hashable, Tensor] = {}
        self._batches: dict[Hashable, Any] = {}

    def load(self, kind: Hashable, batch: Any) -> Any:
        """Copy a batch to the addresses of its kind, with few kernel launches, and return the copy."""
        targets: dict[Path, Tensor] = {}
        pairs: list[tuple[Tensor, Tensor]] = []
        for path, x in _tensors(batch):
            name = (*path, tuple(x.shape), x.stride(), x.dtype)
            if name not in self._tensors:
                self._tensors[name] = x.detach().clone()
            elif x is not self._tensors[name]:
                pairs.append((self._tensors[name], x))
            targets[path] = self._tensors[name]
        copy_all(pairs)
        if kind not in self._batches:
            self._batches[kind] = _mapped(batch, lambda path, x: targets[path])
        return self._batches[kind]


def copy_all(pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Copy the second tensor of each pair to the first, which has the same shape and dtype. All contiguous tensors
    whose size is a multiple of a machine word are copied by one kernel launch, whatever their dtypes."""
    views: list[list[Tensor]] = []
    for pair in pairs:
        if all(x.is_contiguous() and (x.data_ptr() | x.nbytes) % WORD == 0 for x in pair):
            views.append([x.view(-1).view(torch.int64) for x in pair])
        else:
            pair[0].copy_(pair[1])
    if views:
        torch._foreach_copy_([to for to, _ in views], [x for _, x in views])


def _tensors(batch: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    if isinstance(batch, Tensor):
        yield path, batch
    for name, part in (_parts(batch) or {}).items():
        yield from _tensors(part, (*path, name))


def _parts(batch: Any) -> dict[Any, Any] | None:
    if is_dataclass(batch) and not isinstance(batch, type):
        return {f.name: getattr(batch, f.name) if f.metadata.get("in_batches", True) else None for f in fields(batch)}
    if isinstance(batch, dict):
        return dict(batch)
    if isinstance(batch, tuple | list):
        return dict(enumerate(batch))
    return None


def _mapped(batch: Any, change: Callable[[Path, Tensor], Tensor], path: Path = ()) -> Any:
    """A copy of a batch in which each tensor x is replaced by change(path, x). The constructors of the batch's
    dataclasses are not called."""
    if isinstance(batch, Tensor):
        return change(path, batch)
    parts = _parts(batch)
    if parts is None:
        return batch
    changed = {name: _mapped(part, change, (*path, name)) for name, part in parts.items()}
    if isinstance(batch, dict):
        return changed
    if isinstance(batch, tuple | list):
        return type(batch)(*changed.values()) if hasattr(batch, "_fields") else type(batch)(changed.values())
    result = copy.copy(batch)
    for name, part in changed.items():
        object.__setattr__(result, name, part)
    return result
