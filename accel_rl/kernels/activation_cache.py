"""Outputs of a network's layers while it acted, for an update by the same parameters.

A2C updates once from the rollout that it has just played, with the parameters that played it. The forward pass of that
update would compute what acting computed, so it reads the outputs of the wide layers instead.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from accel_rl.kernels.call_graph import recorder


class OutputBuffer(NamedTuple):
    """Memory for a layer's output [n, ...]: still to be written, or already `filled`."""

    out: Tensor
    filled: bool


class ActivationCache:
    """Outputs of layers, by the layer's weight, for the cells [T * B] of one rollout.

    An output is read only if each cell was written exactly once: not after a rollout that lacks cells, not for a layer
    that the network uses twice. The cache serves one loss, since the parameters change after it, and none if the
    parameters changed during the rollout (`invalidate`).
    """

    def __init__(self) -> None:
        self._outputs: dict[Tensor, Tensor] = {}
        self._written: dict[Tensor, int] = {}
        self._action: Tensor | None = None  # of the rollout
        self._obs: tuple[Tensor, int] | None = None
        self._stale = False  # the parameters changed since `begin`
        self._counting = threading.Lock()  # threads may act for different environments at once

    def begin(self, action: Tensor) -> None:
        """Start the rollout with these actions [T, B]; earlier contents of the cache become invalid."""
        self.void()
        self._action, self._stale = action, False

    def invalidate(self) -> None:
        """Note that the parameters changed during the rollout: its outputs are not read."""
        self._stale = True

    def void(self) -> None:
        self._action = self._obs = None
        self._written.clear()

    def observe(self, obs: Tensor, action: Tensor) -> None:
        """Note that `obs` [T * B, ...] are the observations, time-major, of the rollout with these actions."""
        if action is self._action and not self._stale:
            self._obs = obs, obs._version
            obs.activation_cache = self  # type: ignore[attr-defined]

    @contextmanager
    def writing(self, first: int) -> Iterator[None]:
        """Context in which the network acts on the cells from `first` on."""
        with _using(self, first):
            yield

    @contextmanager
    def reading(self, obs: Tensor) -> Iterator[None]:
        """During the first loss after the rollout; only the observations that were acted on, unchanged, are read."""
        unchanged = self._obs is not None and self._obs[0] is obs and self._obs[1] == obs._version
        with _using(self if unchanged else None, None):
            yield
        self.void()

    def buffer(
        self, weight: Tensor, first: int | None, shape: tuple[int, ...], dtype: torch.dtype
    ) -> OutputBuffer | None:
        """The memory for an output of that shape: to be filled for the cells from `first` on, or (None) to be read."""
        cells = 0 if self._action is None else self._action.numel()
        if first is None:
            filled = torch.is_grad_enabled() and self._written.get(weight) == cells == shape[0]
            out = self._outputs[weight] if filled else None
            fits = out is not None and (out.shape, out.dtype) == (shape, dtype)
            return OutputBuffer(out, True) if out is not None and fits else None
        if torch.is_grad_enabled():
            return None
        whole = cells, *shape[1:]
        with self._counting:
            out = self._outputs.get(weight)
            if out is None or (out.shape, out.dtype) != (whole, dtype):
                out = self._outputs[weight] = torch.zeros(whole, dtype=dtype)
            self._written[weight] = self._written.get(weight, 0) + shape[0]
        if (recording := recorder()) is not None:
            recording.cached_layers.append((weight, shape[0]))
        return OutputBuffer(out[first : first + shape[0]], False)

    def outputs(self, weight: Tensor) -> Tensor:
        """[T * B, ...], the output of the layer with that weight."""
        return self._outputs[weight]

    def note_written(self, layers: list[tuple[Tensor, int]]) -> None:
        """Count cells (weight, n) that a replayed call graph has written."""
        with self._counting:
            for weight, n in layers:
                self._written[weight] = self._written.get(weight, 0) + n


class _Active(threading.local):  # one thread may act while another learns
    cache: ActivationCache | None = None
    first: int | None = None


_active = _Active()


@contextmanager
def _using(cache: ActivationCache | None, first: int | None) -> Iterator[None]:
    before, (_active.cache, _active.first) = (_active.cache, _active.first), (cache, first)
    try:
        yield
    finally:
        _active.cache, _active.first = before


def output_buffer(weight: Tensor, *shape: int, dtype: torch.dtype = torch.float32) -> OutputBuffer | None:
    """The memory for a layer's output of that shape [n, ...] in the active cache; None without one."""
    return None if _active.cache is None else _active.cache.buffer(weight, _active.first, shape, dtype)


def reading(obs: Tensor | None) -> AbstractContextManager[None]:
    """A context in which layers read the outputs that were cached for the observations `obs`, if there are any."""
    cache: ActivationCache | None = getattr(obs, "activation_cache", None)
    return nullcontext() if cache is None or obs is None else cache.reading(obs)
