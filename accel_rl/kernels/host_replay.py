"""Compiled kernels draw and gather the batches of a replay in host memory. Their results equal those of the torch
operations in `ring_arrays.gather`, `FrameRing.nth`, `SumTree` and `Prioritized`, bit for bit."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.ring_arrays import Gathered, RingArrays

FANOUT = 32  # src/replay.h has the same constant.


class HostRing:
    """A `HostRing` has the arrays of a ring in host memory, whose memory must not be replaced."""

    def __init__(self, module: Any, ring: RingArrays):
        self._ring = ring
        arrays = (ring.frames, ring.age, ring.action, ring.reward, ring.flags, ring.final)
        self._frame_bytes = ring.frames[0].nbytes
        sizes = (len(ring.flags), ring.B, ring.stack, ring.n, self._frame_bytes, ring.action.element_size())
        self.compiled = module.HostRing(sizes, [x.data_ptr() for x in arrays], ring.gamma, ring.reward_clip)

    def nth(self, uniform: Tensor, drawable: int, first: int, before: Tensor | None) -> Tensor:
        """Return cells [N] as `FrameRing.nth` does for `uniform` [N] float64, in [0, 1), times `drawable`. `before` [L
        + 1] int64 is needed if cells were refused."""
        _check(uniform, torch.float64, len(uniform))
        rows = len(self._ring.flags) // self._ring.B
        cells = torch.empty(len(uniform), dtype=torch.int64)
        before_at = 0 if before is None else _check(before, torch.int64, rows + 1).data_ptr()
        self.compiled.nth(len(uniform), uniform.data_ptr(), drawable, first, before_at, cells.data_ptr())
        return cells

    def gather(self, finals: Tensor, cell: Tensor) -> Gathered:
        """Gather the transitions that begin at cells [N], with the final frames `finals`, as `ring_arrays.gather` does
        with `may_overlap`."""
        ring, N, S, frames = self._ring, len(cell), self._ring.stack, self._ring.frames
        _check(cell, torch.int64, N)
        _check(finals, frames.dtype, len(finals), frames.shape[1:])
        shape = frames.shape[1:]
        if S > 1 and ring.n == 1:
            window = frames.new_empty(N, S + 1, *shape)
            obs_tm1, obs_t = window.narrow(1, 0, S), window.narrow(1, 1, S)
        else:
            stacks = (N, *shape) if S == 1 else (N, S, *shape)
            obs_tm1, obs_t = frames.new_empty(stacks), frames.new_empty(stacks)
        r_t, discount_t, action = torch.empty(N), torch.empty(N), torch.empty(N, dtype=torch.int64)
        self.compiled.gather(
            N, cell.data_ptr(), finals.data_ptr(), len(finals), obs_tm1.data_ptr(), obs_t.data_ptr(),
            obs_tm1.stride(0) * frames.element_size(), action.data_ptr(), r_t.data_ptr(), discount_t.data_ptr(),
            torch.get_num_threads(),
        )  # fmt: skip
        return obs_tm1, obs_t, r_t, discount_t, action


def host_ring(ring: RingArrays) -> HostRing | None:
    """Return the ring's arrays for the compiled kernels. Returns None for a ring on a GPU, or if the kernels are not
    compiled."""
    size, uint8 = len(ring.flags), torch.uint8
    module = native.compiled() if ring.frames.is_cpu else None
    if module is None:
        return None
    _check(ring.frames, ring.frames.dtype, size, ring.frames.shape[1:])
    _check(ring.action, uint8 if ring.action.dtype == uint8 else torch.int16, size)
    for array, dtype in ((ring.age, uint8), (ring.reward, torch.float32), (ring.flags, uint8), (ring.final, torch.int32)):
        _check(array, dtype, size)
    if min(size, ring.B, ring.stack, ring.n) < 1 or size % ring.B:
        raise ValueError(f"a ring of {size} cells in rows of {ring.B}, stacks of {ring.stack} and {ring.n} steps")
    return HostRing(module, ring)


class HostTree:
    """A `HostTree` has the levels of a `SumTree` in host memory, whose memory must not be replaced."""

    def __init__(self, module: Any, levels: Sequence[Tensor]):
        self._levels = levels
        self._compiled = module.HostTree([x.data_ptr() for x in levels], [len(x) for x in levels])

    def draw(self, ring: HostRing, uniform: Tensor, total: Tensor, newest: int) -> tuple[Tensor, Tensor]:
        """Return (cells [N] int64, probability [N] float64) for `uniform` [N] float64, as `Prioritized.draw`."""
        N = len(_check(uniform, torch.float64, len(uniform)))
        cells, probability = torch.empty(N, dtype=torch.int64), torch.empty_like(uniform)
        self._compiled.draw(
            N, uniform.data_ptr(), float(total), ring.compiled, newest, cells.data_ptr(), probability.data_ptr()
        )
        return cells, probability

    def update(
        self, ring: HostRing, cell: Tensor, weight: Tensor, inside: tuple[int, int], highest: Tensor
    ) -> None:
        """Set the weights [N] float32 of cells [N] int64, where the replay has the cells `inside` [first, end), and
        raise `highest` to the largest weight."""
        N = len(_check(cell, torch.int64, len(cell)))
        _check(weight, torch.float32, N)
        self._compiled.update(N, cell.data_ptr(), weight.data_ptr(), ring.compiled, *inside, highest.data_ptr())


def host_tree(levels: Sequence[Tensor]) -> HostTree | None:
    """Return a sum tree's levels for the compiled kernels, or None as `host_ring`."""
    module = native.compiled() if levels[0].is_cpu else None
    return HostTree(module, levels) if module is not None else None


def _check(x: Tensor, dtype: torch.dtype, n: int, shape: torch.Size = torch.Size()) -> Tensor:
    """Return x if a kernel can read it as n contiguous elements in host memory, or raise ValueError."""
    if x.dtype != dtype or not x.is_contiguous() or not x.is_cpu or x.shape != (n, *shape):
        raise ValueError(f"got {x.dtype} {tuple(x.shape)} on {x.device}; expected contiguous {dtype} {(n, *shape)} on the CPU")
    return x
