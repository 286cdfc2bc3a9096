"""What a network's layers gave while it acted, for the update by the same parameters: it needs no forward pass then."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from accel_rl.kernels.call_graph import recording


class Place(NamedTuple):
    """Where a layer's output [n, ...] goes (`known` False), or lies already."""

    out: Tensor
    known: bool


class ActivationCache:
    """Outputs of a network's layers for the cells [T * B] of one rollout. Of the layers that ask for a `place`.

    A layer's are read only where each cell has been written once: not after a rollout that lacks some, not if the
    network uses the layer twice. They serve one loss: after it the parameters are others. They serve no loss if the
    parameters changed while the rollout was played (`invalidate`).
    """

    def __init__(self) -> None:
        self._outputs: dict[nn.Module, Tensor] = {}
        self._written: dict[nn.Module, int] = {}
        self._action: Tensor | None = None
        self._obs: tuple[Tensor, int] | None = None
        self._stale = False  # parameters changed since `begin`
        self._counting = threading.Lock()  # several threads may act, for different cells

    def begin(self, action: Tensor) -> None:
        """The rollout whose actions [T, B] these will be follows; what was kept is void."""
        self.void()
        self._action, self._stale = action, False

    def invalidate(self) -> None:
        """The parameters changed in the midst of the rollout: it is written to its end, and nothing of it is read."""
        self._stale = True

    def void(self) -> None:
        self._action = self._obs = None
        self._written.clear()

    def are_of(self, obs: Tensor, action: Tensor) -> None:
        """These [T * B, ...] are the observations that were acted on in the rollout of these actions."""
        if action is self._action and not self._stale:
            self._obs = obs, obs._version

    @contextmanager
    def writing(self, first: int) -> Iterator[None]:
        """While the network acts on the cells from this one."""
        with _using(self, first):
            yield

    @contextmanager
    def reading(self, obs: Tensor) -> Iterator[None]:
        """During the first loss after the rollout: nothing is read unless it is of the very observations, unchanged."""
        the_ones = self._obs is not None and self._obs[0] is obs and self._obs[1] == obs._version
        with _using(self if the_ones else None, None):
            yield
        self.void()

    def place(self, layer: nn.Module, first: int | None, shape: tuple[int, ...], dtype: torch.dtype) -> Place | None:
        cells = 0 if self._action is None else self._action.numel()
        if first is None:
            known = torch.is_grad_enabled() and self._written.get(layer) == cells == shape[0]
            out = self._outputs[layer] if known else None
            return Place(out, True) if out is not None and (out.shape, out.dtype) == (shape, dtype) else None
        if torch.is_grad_enabled():
            return None
        whole = cells, *shape[1:]
        with self._counting:
            out = self._outputs.get(layer)
            if out is None or (out.shape, out.dtype) != (whole, dtype):
                out = self._outputs[layer] = torch.zeros(whole, dtype=dtype)
            self._written[layer] = self._written.get(layer, 0) + shape[0]
        if (calls := recording()) is not None:
            calls.places.append((layer, shape[0]))
        return Place(out[first : first + shape[0]], False)

    def outputs(self, layer: nn.Module) -> Tensor:
        """[T * B, ...], what that layer has a `place` in."""
        return self._outputs[layer]

    def written(self, places: list[tuple[nn.Module, int]]) -> None:
        """So many cells of each of the layers, by calls that were recorded."""
        with self._counting:
            for layer, n in places:
                self._written[layer] = self._written.get(layer, 0) + n


class _Now(threading.local):  # one thread may act while another learns
    kept: ActivationCache | None = None
    first: int | None = None


_now = _Now()


@contextmanager
def _using(kept: ActivationCache | None, first: int | None) -> Iterator[None]:
    before, (_now.kept, _now.first) = (_now.kept, _now.first), (kept, first)
    try:
        yield
    finally:
        _now.kept, _now.first = before


def place(layer: nn.Module, *shape: int, dtype: torch.dtype = torch.float32) -> Place | None:
    """Where a layer's output of that shape [n, ...], contiguous on the host, goes or lies; None: anywhere."""
    return None if _now.kept is None else _now.kept.place(layer, _now.first, shape, dtype)
