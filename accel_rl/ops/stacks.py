"""Stacked pictures that stay in the sequence in which each frame is stored once."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from accel_rl.ops import host
from accel_rl.ops.frames import gather_stacks

MOST_FRAMES = 16  # of a stack, as they are compiled
Source = tuple[int, int, int, int, int]


class Stacks(Tensor):
    """The observations that `gather_stacks` gives, not gathered: a compiled first layer reads each frame where it lies.

    For everything else it is the tensor [N, stack, H, W] uint8, and gathered by the first operation on it. The frames
    must stay as they are for as long, a gradient through them included.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, frames: Tensor, t: Tensor, b: Tensor, age: Tensor, stack: int) -> "Stacks":
        shape = (len(t), stack, *frames.shape[2:])
        made = Tensor._make_wrapper_subclass(cls, shape, dtype=frames.dtype, device=frames.device)  # type: ignore[attr-defined]
        return cast(Stacks, made)

    def __init__(self, frames: Tensor, t: Tensor, b: Tensor, age: Tensor, stack: int):
        self._cells = frames, t, b, age, stack
        self._gathered: Tensor | None = None
        self._source: tuple[Source, Tensor, Tensor] | None = None

    def gathered(self) -> Tensor:
        """[N, stack, H, W], with memory of its own."""
        if self._gathered is None:
            self._gathered = gather_stacks(*self._cells)
        return self._gathered

    def source(self) -> Source:
        """As ops/planes.h takes it. Addresses into what this holds."""
        if self._source is None:
            frames, t, b, age, _ = self._cells
            places = t.long() * frames.stride(0) + (b.long() * frames.stride(1) + frames.data_ptr())
            age = age.to(torch.uint8).contiguous()
            self._source = (0, frames.stride(0), 0, places.data_ptr(), age.data_ptr()), places, age
        return self._source[0]

    def numpy(self, *, force: bool = False) -> Any:
        return self.gathered().numpy(force=force)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        args, kwargs = tree_map_only(cls, cls.gathered, (args, kwargs or {}))
        return func(*args, **kwargs)


def stacks(frames: Tensor, t: Tensor, b: Tensor, age: Tensor, stack: int) -> Tensor:
    """`gather_stacks`, put off until somebody needs more than a first layer does: `Stacks` of pictures on the host."""
    pictures = frames.dtype == torch.uint8 and frames.dim() == 4 and frames[0, 0].is_contiguous()
    if frames.device.type == "cpu" and pictures and 1 < stack <= MOST_FRAMES and host.compiled() is not None:
        return Stacks(frames, t, b, age, stack)
    return gather_stacks(frames, t, b, age, stack)


def window_stacks(frames: Tensor, age: Tensor, t: int, T: int, b: slice, stack: int) -> Tensor:
    """The observations of T successive steps of neighbouring environments, as `stacks` gives them.

    frames [R, B, *frame_shape], age [.., B]; steps t .. t + T - 1 of environments b -> [T * n, stack, *frame_shape],
    time-major.
    """
    if stack == 1:
        return frames[t : t + T, b].flatten(0, 1)
    rows = torch.arange(t, t + T, device=frames.device)
    columns = torch.arange(*b.indices(frames.shape[1]), device=frames.device)
    cells = rows.repeat_interleave(len(columns)), columns.repeat(T)
    return stacks(frames, *cells, age[t : t + T, b].flatten(), stack)


def whole(obs: Tensor) -> Tensor:
    """A tensor in any case."""
    return obs.gathered() if isinstance(obs, Stacks) else obs


def source_of(obs: Tensor) -> Source:
    """Where a first layer finds observations [N, S, H, W] uint8, `Stacks` or a tensor of planes (ops/planes.h)."""
    if isinstance(obs, Stacks):
        return obs.source()
    return obs.data_ptr(), obs.shape[2] * obs.shape[3], obs.stride(0), 0, 0


def in_planes(obs: Tensor) -> Tensor:
    """The same, each plane in one piece; observations may lie apart, as a replay's windows do."""
    if isinstance(obs, Stacks) or obs.stride()[1:] == (obs.shape[2] * obs.shape[3], obs.shape[3], 1):
        return obs
    return obs.contiguous()
