"""Draw and gather the batches of a replay by kernels.

On CUDA, one operator gathers a batch. The operator launches a Triton kernel, or runs torch operations if Triton is
missing. If the replay is in host memory, compiled kernels draw the transitions and gather the batch. The kernels'
results equal those of the torch operations in `ring_arrays.gather`, `FrameRing.nth`, `SumTree` and `Prioritized`, bit
for bit.
"""

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.ring_arrays import Gathered, RingArrays, empty, gather
from accel_rl.text.notes import say_once

FANOUT = 32  # Fan-out of the sum tree on the host, the same as in src/replay.h


def host_ring(ring: RingArrays) -> Any:
    """Return the compiled HostRing (src/replay.h) over the arrays of a ring, which must not be replaced by other
    arrays. Return None for a ring on a GPU, or if the kernels are not compiled."""
    module = native.compiled() if ring.frames.is_cpu else None
    if module is None:
        return None
    arrays = (ring.frames, ring.age, ring.action, ring.reward, ring.flags, ring.final)
    return module.HostRing(*arrays, ring.B, ring.stack, ring.n, ring.gamma, ring.reward_clip)


def host_tree(levels: list[Tensor], fanout: int) -> Any:
    """Return the compiled HostTree over the levels of a sum tree, which must not be replaced by other tensors. Return
    None for a sum tree on a GPU, or if the kernels are not compiled."""
    module = native.compiled() if levels[0].is_cpu and fanout == FANOUT else None
    return None if module is None else module.HostTree(levels[0], levels[1:])


def gather_batch(ring: RingArrays, cell: Tensor) -> Gathered:
    """Return the n-step transitions that begin at cells [N], on any device, without synchronizing with a GPU."""
    if not cell.is_cpu:
        obs_tm1, obs_t, r_t, discount_t, a_tm1 = gather_transitions(*ring, cell)
        return obs_tm1, obs_t, r_t, discount_t, a_tm1
    return gather(ring, cell, may_overlap=True)


# Torch infers the operator's schema from the annotations, which must list the fields of RingArrays one by one.
@torch.library.custom_op("accel_rl::gather_transitions", mutates_args=())
def gather_transitions(
    frames: Tensor,
    finals: Tensor,
    age: Tensor,
    action: Tensor,
    reward: Tensor,
    flags: Tensor,
    final: Tensor,
    B: int,
    stack: int,
    n: int,
    gamma: float,
    reward_clip: float,
    cell: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the results of `ring_arrays.gather` as new tensors, which share no memory with the ring."""
    ring = RingArrays(frames, finals, age, action, reward, flags, final, B, stack, n, gamma, reward_clip)
    return gather(ring, cell)


@gather_transitions.register_kernel("cuda")
def _on_cuda(*arguments: Tensor | float) -> Gathered:
    *fields, cell = arguments
    ring = RingArrays(*fields)  # type: ignore[arg-type]
    assert isinstance(cell, Tensor)
    launch = _launcher()
    if launch is not None and not _failures:
        try:
            with torch.cuda.device(cell.device):
                return launch(ring, cell)
        except torch.OutOfMemoryError:
            raise
        except Exception as e:  # Triton fails without a C compiler, or for a GPU that Triton does not support.
            _failures.append(e)
            say_once(f"the replay's Triton kernel does not run, torch gathers in many operations: {str(e).strip()}")
    return gather(ring, cell)


_failures: list[Exception] = []


@cache
def _launcher() -> Callable[[RingArrays, Tensor], Gathered] | None:
    if importlib.util.find_spec("triton") is None:
        say_once("Triton is not installed: torch gathers the replay's batches on the GPU in many operations")
        return None
    from accel_rl.kernels.replay_gather_triton import launch

    return launch


@gather_transitions.register_fake
def _shapes(*arguments: Tensor | float) -> Gathered:
    *fields, cell = arguments
    ring = RingArrays(*fields)  # type: ignore[arg-type]
    assert isinstance(cell, Tensor)
    return empty(ring, cell)
