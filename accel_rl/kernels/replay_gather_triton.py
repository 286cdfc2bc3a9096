"""A Triton kernel that gathers a batch of transitions from the replay on a GPU.

Each program of the kernel copies one frame of one sample: frame j of obs_tm1 (j < STACK), or of obs_t. To find the end
of the transition, a program iterates over the sample's n steps. The first program of each sample also stores the
return, the discount and the action.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from accel_rl.kernels import ring_arrays
from accel_rl.kernels.ring_arrays import Gathered, RingArrays, empty

TERMINATED = tl.constexpr(ring_arrays.TERMINATED)
STOPS = tl.constexpr(ring_arrays.TERMINATED | ring_arrays.ENDED)
BLOCK = 1024  # Number of words that a Triton program copies at a time
# Fused multiply-adds are disabled, because they round only once, and the results must equal those of torch.
OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}


@triton.jit  # type: ignore[untyped-decorator]
def gather_kernel(  # type: ignore[no-untyped-def]
    frames, finals, age, action, reward, flags, final, cell, obs_tm1, obs_t, r_t, discount_t, a_tm1,
    size, B, gamma, clip,
    STACK: tl.constexpr, STEPS: tl.constexpr, CLIPS: tl.constexpr, WORDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`frames` and `finals` are arrays of words, with WORDS words per frame. The ring has `size` cells (stored steps),
    in rows of B cells."""
    i = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1)
    first = tl.load(cell + i)
    last = first  # `last` is the last step of the transition.
    flag = tl.load(flags + first % size).to(tl.int32)
    total = tl.load(reward + first % size)
    if CLIPS:  # Clipping by comparisons keeps a NaN.
        total = tl.where(total > clip, clip, tl.where(total < -clip, -clip, total))
    discount = tl.where((flag & TERMINATED) != 0, 0.0, gamma)
    goes_on = (flag & STOPS) == 0
    for k in tl.static_range(1, STEPS):
        step = first + k * B
        flag = tl.load(flags + step % size).to(tl.int32)
        value = tl.load(reward + step % size)
        if CLIPS:
            value = tl.where(value > clip, clip, tl.where(value < -clip, -clip, value))
        total += tl.where(goes_on, discount * value, 0.0)
        last = tl.where(goes_on, step, last)
        more = tl.where((flag & TERMINATED) != 0, 0.0, gamma)
        discount = tl.where(goes_on, discount * more, discount)
        goes_on = goes_on & ((flag & STOPS) == 0)
    tl.store(r_t + i, total, mask=j == 0)
    tl.store(discount_t + i, discount, mask=j == 0)
    tl.store(a_tm1 + i, tl.load(action + first % size).to(tl.int64), mask=j == 0)

    is_next = j >= STACK  # If `is_next` is true, frame j belongs to obs_t.
    lag = STACK - 1 - j % STACK  # The newest frame of a stack has lag 0.
    known = tl.load(age + tl.where(is_next, last, first) % size).to(tl.int32) + is_next.to(tl.int32)
    shown = lag <= known
    slot = tl.load(final + last % size).to(tl.int64)
    is_final = is_next & (lag == 0) & (slot >= 0)
    newest = tl.where(is_next, last + B, first)
    stored = (newest - lag * B + size) % size
    source = tl.where(is_final, finals + slot * WORDS, frames + stored * WORDS)
    to = tl.where(is_next, obs_t, obs_tm1) + (i * STACK + j % STACK) * WORDS
    for begin in tl.static_range(0, WORDS, BLOCK):
        word = begin + tl.arange(0, BLOCK)
        inside = word < WORDS
        frame = tl.load(source + word, mask=inside, other=0)
        tl.store(to + word, tl.where(shown, frame, 0), mask=inside)


def launch(ring: RingArrays, cell: Tensor) -> Gathered:
    """Gather the transitions that begin at cells [N] by one launch on the current device."""
    out = empty(ring, cell)
    obs_tm1, obs_t, r_t, discount_t, a_tm1 = out
    if not len(cell):
        return out
    dtype = word_dtype(ring.frames[0].nbytes)
    words = ring.frames[0].nbytes // dtype.itemsize
    gather_kernel[len(cell), 2 * ring.stack](
        _words(ring.frames, dtype), _words(ring.finals, dtype),
        ring.age, ring.action, ring.reward, ring.flags, ring.final, cell.contiguous(),
        _words(obs_tm1, dtype), _words(obs_t, dtype), r_t, discount_t, a_tm1,
        len(ring.flags), ring.B, ring.gamma, ring.reward_clip,
        ring.stack, ring.n, bool(ring.reward_clip), words, min(BLOCK, triton.next_power_of_2(words)), **OPTIONS,
    )  # fmt: skip
    return out


def word_dtype(frame_bytes: int) -> torch.dtype:
    """Return the widest integer dtype whose size divides a frame's size, because wide words need fewer loads."""
    for dtype in (torch.int64, torch.int32, torch.int16):
        if frame_bytes % dtype.itemsize == 0:
            return dtype
    return torch.uint8


def _words(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.view(-1).view(dtype)
