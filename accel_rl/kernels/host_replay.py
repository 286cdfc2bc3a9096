"""Compiled kernels draw and gather the batches of a replay in host memory. Their results equal those of the torch
operations in `ring_arrays.gather`, `FrameRing.nth`, `SumTree` and `Prioritized`, bit for bit."""

from typing import Any

from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.ring_arrays import RingArrays

FANOUT = 32  # src/replay.h has the same constant.


def host_ring(ring: RingArrays) -> Any:
    """Return the compiled HostRing (src/replay.h) of a ring, whose memory must not be replaced. Returns None for
    a ring on a GPU, or if the kernels are not compiled."""
    module = native.compiled() if ring.frames.is_cpu else None
    if module is None:
        return None
    arrays = (ring.frames, ring.age, ring.action, ring.reward, ring.flags, ring.final)
    return module.HostRing(*arrays, ring.B, ring.stack, ring.n, ring.gamma, ring.reward_clip)


def host_tree(levels: list[Tensor], fanout: int) -> Any:
    """Return the compiled HostTree of a sum tree's levels, whose memory must not be replaced, or None as
    `host_ring`."""
    module = native.compiled() if levels[0].is_cpu and fanout == FANOUT else None
    return None if module is None else module.HostTree(levels[0], levels[1:])
