"""The frame ring stores the last L steps of B simulators. Each frame is stored only once.

    row     ... |  t-3   t-2   t-1    t   t+1  | ...          stack of 4 at t: rows t-3 .. t, as far as age[t] reaches
    oldest |<-S-1->|<--------- eligible --------->|<- n ->| cursor: the next row to write; it replaces the oldest
               incomplete stack                incomplete transition

Rows are numbered from the first step of the run, without wrapping, and row t is stored at position t modulo L. The cell
of row t and environment b has the number t * B + b.
"""

import contextlib
import math
import mmap
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.data.staging import Staging
from accel_rl.kernels import native
from accel_rl.kernels.replay_gather import gather_batch, host_ring
from accel_rl.kernels.ring_arrays import ENDED, SAMPLEABLE, TERMINATED, VALID, RingArrays
from accel_rl.machine.devices import Device
from accel_rl.replays.host_cells import HostCells

NONE = -1


@dataclass(slots=True)
class ReplayBatch:
    """N transitions over n steps, in the notation of rlax. A transition begins at obs_tm1 with the action a_tm1, yields
    the n-step return r_t, and ends at obs_t.

    `obs_tm1` and `obs_t` are [N, S, *frame_shape] ([N, *frame_shape] without a stack), with the dtype of the replay.
    `a_tm1` [N] int64 are the actions. `r_t` [N] is the return r_1 + gamma r_2 + ..., a sum of at most n rewards up to
    the end of the episode. `discount_t` [N] is gamma^n, or gamma^k if a time limit cut the episode after k steps (obs_t
    is then the episode's last observation). `discount_t` is 0 if the episode terminated, or if a life was lost and this
    ends the return. `weight` [N] is the sample's importance weight in the loss, which is 1 if all samples are equally
    likely. `cell` [N] int64, on the replay's device, is the index t * B + b of the transition among all transitions of
    the run.
    """

    obs_tm1: Tensor
    a_tm1: Tensor
    r_t: Tensor
    discount_t: Tensor
    obs_t: Tensor
    weight: Tensor
    cell: Tensor


class FinalFrames:
    """A pool of the last frames of episodes in numbered slots. The pool grows if all slots are in use."""

    def __init__(self, spec: EnvSpec, slots: int, staging: Staging):
        """`staging` copies frames to the device that stores the pool."""
        dtype = getattr(torch, spec.frame_dtype)
        self.frames = torch.zeros(max(slots, 1), *spec.frame_shape, dtype=dtype, device=staging.device)
        self._staging = staging
        self._free = list(range(len(self.frames) - 1, -1, -1))

    def put(self, frames: Tensor) -> Tensor:
        """Store frames [n, ...] from any device. Return their slots [n] int32 on the host."""
        while len(self._free) < len(frames):
            self._grow()
        slots = torch.tensor([self._free.pop() for _ in range(len(frames))], dtype=torch.int64)
        frames = self._staging.put(frames) if frames.device.type == "cpu" else frames.to(self.frames.device)
        self.frames[self._staging.put(slots)] = frames
        return slots.to(torch.int32)

    def drop(self, slots: Tensor) -> None:
        """Free the slots [n], except NONE."""
        self._free += slots[slots >= 0].tolist()

    def clear(self) -> None:
        self._free = list(range(len(self.frames) - 1, -1, -1))

    def _grow(self) -> None:
        n = len(self.frames)
        self.frames = torch.cat([self.frames, torch.zeros_like(self.frames)])
        self._free += range(2 * n - 1, n - 1, -1)

    @property
    def nbytes(self) -> int:
        return self.frames.nbytes


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of zeros whose memory is mapped immediately instead of during the run. On the host, the tensor uses huge
    pages if the system provides them, so that random reads cause fewer TLB misses. Raises OSError or MemoryError if
    memory is insufficient."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    n = math.prod(shape)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    memory = mmap.mmap(-1, max(1, n * dtype.itemsize), **private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # Without huge pages, ordinary pages are used.
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype, count=n).view(shape).zero_()


@dataclass(frozen=True, slots=True)
class NStep:
    """Settings of n-step returns (Sutton 1988; Hessel et al. 2018). `gamma` is the discount per step. Rewards are
    clipped to +- `reward_clip`, or not clipped if `reward_clip` is 0."""

    n: int = 1
    gamma: float = 0.99
    reward_clip: float = 1.0


class StoredStates:
    """The recurrent states of B simulators before every period-th row. Every period-th row must be the first row of a
    rollout."""

    def __init__(self, L: int, B: int, period: int, size: int, device: torch.device | str):
        self.period = period
        self.states = torch.zeros(L // period, B, size, device=device)

    def append(self, row: int, rollout: Rollout) -> None:
        """`row` is the number of the rollout's first row."""
        if -row % self.period >= rollout.T:
            return
        if row % self.period or rollout.state is None:
            raise ValueError(f"no rollout begins at every {self.period}-th step, with a recurrent state")
        self.states[self._slots(row, row + 1)[0]].copy_(rollout.state)

    def read(self, low: int, high: int) -> Tensor:
        """The stored states [n, B, size] before the rows [low, high), on the host."""
        return self.states[self._slots(low, high)].cpu()

    def load(self, low: int, high: int, states: Tensor) -> None:
        slots = self._slots(low, high)
        self.states[slots] = states[len(states) - len(slots) :].to(self.states.device)

    def _slots(self, low: int, high: int) -> list[int]:
        return [k % len(self.states) for k in range(-(-low // self.period), -(-high // self.period))]


STEPS_PER_FINAL = 200  # The ring reserves memory for the final frames of episodes with a mean length of 200 steps.


class FrameRing:
    """The transitions of B simulators (Stooke & Abbeel 2018, section 5.3).

    A cell of the ring stores the newest frame of the observation before the step, the frame's age, the action, the
    unclipped reward and the step's flags. A cell needs one frame and 11 bytes, or 12 bytes if there are more than 256
    actions. All memory is allocated when the ring is created.

    The attribute `host` is a copy of the cells' state in host memory, so that the CPU never has to synchronize with a
    ring on a GPU. Draws can be captured as a CUDA graph, because all values on which they depend are in tensors at
    fixed addresses, except those in `key`.
    """

    def __init__(
        self,
        spec: EnvSpec,
        B: int,
        size: int,
        returns: NStep,
        device: str | torch.device = "cpu",
        states: StoredStates | None = None,
    ):
        """`size` is the capacity in transitions, rounded up to complete rows."""
        self.spec = spec
        self.B = B
        self.returns = returns
        self.device = torch.device(device)
        self.L = -(-size // B)
        if returns.n + spec.stack + 1 > self.L:
            raise ValueError(f"a replay of {size} transitions of {B} environments is too small to hold one of them")
        n, dtype = self.L * B, getattr(torch, spec.frame_dtype)
        self.frames = zeros((n, *spec.frame_shape), dtype, self.device)
        self.age = torch.zeros(n, dtype=torch.uint8, device=self.device)
        self.action = torch.zeros(n, dtype=torch.uint8 if spec.n_actions <= 256 else torch.int16, device=self.device)
        self.reward = torch.zeros(n, device=self.device)
        self.flags = torch.zeros(n, dtype=torch.uint8, device=self.device)
        self.final = torch.full((n,), NONE, dtype=torch.int32, device=self.device)
        self.states = states
        self._staging = Staging(self.device)
        self.finals = FinalFrames(spec, n // STEPS_PER_FINAL + B, self._staging)
        self.host = HostCells(self.L, B, returns.n, self.flags, self.age, self.final)
        self.cursor = 0
        self.refused = 0  # Number of eligible cells that cannot be drawn, because a step is missing
        self.inside = 0, 0  # The range [first, end) of the eligible cells
        self._count = 0
        # int64 tensors [] on the ring's device, which captured draws read
        self.first, self.eligible_cells, self.drawable, self.newest = (
            torch.zeros((), dtype=torch.int64, device=self.device) for _ in range(4)
        )
        self.before = torch.zeros(self.L + 1, dtype=torch.int64, device=self.device)
        self._compiled = host_ring(self._arrays())

    # -- contents ------------------------------------------------------------

    @property
    def steps(self) -> "FrameRing":
        """The ring that stores the steps, which is this ring itself. A `SequenceRing` stores its steps in another
        ring."""
        return self

    @property
    def oldest(self) -> int:
        return max(0, self.cursor - self.L)

    @property
    def eligible(self) -> tuple[int, int]:
        """Range [low, high) of the rows whose stacks and transitions are complete."""
        low = self.oldest + self.spec.stack - 1
        return low, max(low, self.cursor - self.returns.n)

    def __len__(self) -> int:
        """Number of transitions that can be drawn."""
        return self._count

    @property
    def key(self) -> Hashable:
        """A value that changes when captured draws of batches become invalid."""
        return len(self.finals.frames)

    def position_of(self, cell: Tensor) -> Tensor:
        """The positions of cells [...] in the ring's memory."""
        return cell % (self.L * self.B)

    def cell_at(self, position: Tensor) -> Tensor:
        """The numbers of the cells that are currently stored at positions [...] of the ring's memory."""
        return self.newest - (self.newest - position) % (self.L * self.B)

    @property
    def compiled(self) -> Any:
        """The compiled kernels of the ring, or None if torch operations are used instead."""
        return None if native.is_left_out() else self._compiled

    def sampleable(self, cell: Tensor) -> Tensor:
        """Whether cells [...] can be drawn, bool [...]: a cell must not be overwritten, and none of its n steps may be
        missing."""
        inside = (cell >= self.first) & (cell < self.first + self.eligible_cells)
        return inside & ((self.flags[self.position_of(cell)] & SAMPLEABLE) > 0)

    def nth(self, k: Tensor) -> Tensor:
        """The indices [N] of the k-th cells among those that can be drawn, for k [N] int64 in [0, len)."""
        if not self.refused:
            return self.first + k
        row = torch.searchsorted(self.before, k, right=True) - 1
        start = self.first + row * self.B
        flags = self.flags[self.position_of(start[:, None] + torch.arange(self.B, device=self.device))]
        number = ((flags & SAMPLEABLE) > 0).cumsum(1)  # The drawable cells of each row, numbered from 1
        return start + (number <= (k - self.before[row])[:, None]).sum(1)

    @property
    def nbytes(self) -> int:
        arrays = (self.frames, self.age, self.action, self.reward, self.flags, self.final)
        return sum(a.nbytes for a in arrays) + self.finals.nbytes

    # -- writing ------------------------------------------------------------

    def append(self, rollout: Rollout) -> None:
        """Append T steps to the ring, as one block of memory, or as two blocks at the end of the ring's memory."""
        S = self.spec.stack
        T = rollout.T
        host = self.host
        if T + self.returns.n + S > self.L:
            raise ValueError(f"the replay has {self.L} steps of each environment: too few for rollouts of {T}")
        known = rollout.on_host  # The rollout's copy in host memory
        source = rollout if Device(self.device).queues_work else known
        terminated, ended, valid = (x.cpu() for x in (known.terminated, known.ended, known.valid))
        flags = terminated * TERMINATED + ended * ENDED + valid * VALID
        parts = self._parts(self.cursor, self.cursor + T)
        self.finals.drop(torch.cat([host.final[cells] for cells, _ in parts]))
        final = self._keep_finals(source.final_frames, ended & valid)
        for cells, block in parts:
            self._write(self.frames[cells], source.frames[S - 1 + block.start : S - 1 + block.stop].flatten(0, 1))
            self._write(self.action[cells], source.action[block].flatten())
            self._write(self.reward[cells], source.reward[block].flatten())
            host.age[cells] = known.age[block].flatten().cpu()
            host.flags[cells] = flags[block].flatten().to(torch.uint8)
            host.final[cells] = final[block].flatten()
        if self.states is not None:
            self.states.append(self.cursor, rollout)
        self.cursor += T
        self.show(self.cursor - self.returns.n - T)

    def show(self, low: int) -> None:
        """Mark which cells from row `low` on can be drawn, and copy the state of these rows from the host to a GPU."""
        low = max(low, self.oldest)
        self.host.mark(low, max(low, self.cursor - self.returns.n))
        if Device(self.device).queues_work:
            for cells, _ in self._parts(low, self.cursor):
                for name in ("flags", "age", "final"):
                    self._staging.copy(getattr(self, name)[cells], getattr(self.host, name)[cells])
        low, high = self.eligible
        self.refused = self.host.count_refused(low, high)
        self.inside = low * self.B, high * self.B
        self._count = (high - low) * self.B - self.refused
        self.first.fill_(low * self.B)
        self.eligible_cells.fill_((high - low) * self.B)
        self.drawable.fill_(self._count)
        self.newest.fill_(self.cursor * self.B - 1)
        if self.refused:
            self._staging.copy(self.before, self.host.drawable_before(low, high))

    def _keep_finals(self, frames: Tensor, where: Tensor) -> Tensor:
        """Store the final frames of ended episodes, which `where` [T, B] marks in `frames` [T, B, *frame_shape]. Return
        their slots [T, B] on the host, and NONE where no episode ended."""
        final = torch.full(where.shape, NONE, dtype=torch.int32)
        ends = torch.nonzero(where)
        if len(ends):
            t, b = ends.T if frames.device.type == "cpu" else self._staging.put(ends).to(frames.device).unbind(1)
            final[ends[:, 0], ends[:, 1]] = self.finals.put(frames[t, b])
        return final

    def _write(self, cells: Tensor, values: Tensor) -> None:
        """Copy values [k, ...] from any device to cells [k, ...] of one of the ring's arrays."""
        if values.device.type == "cpu":
            self._staging.copy(cells, values)
        else:
            cells.copy_(values, non_blocking=Device(self.device).queues_work)

    def _parts(self, low: int, high: int) -> list[tuple[slice, slice]]:
        """Divide rows [low, high) into one or two blocks that are contiguous in memory. A block is (slice of the cells'
        positions in memory, slice of the rows, counted from `low`)."""
        begin = low % self.L
        first = min(high - low, self.L - begin)
        parts = [(begin, slice(0, first))] + ([(0, slice(first, high - low))] if first < high - low else [])
        return [(slice(begin * self.B, (begin + rows.stop - rows.start) * self.B), rows) for begin, rows in parts]

    # -- reading ------------------------------------------------------------

    def batch(self, cell: Tensor, weight: Tensor | None = None) -> ReplayBatch:
        """Transitions that begin at cells `cell` [N], which must be sampleable. `weight` [N] are the importance
        weights, by default 1."""
        weight = torch.ones(len(cell), device=self.device) if weight is None else weight
        if (compiled := self.compiled) is not None:
            obs_tm1, obs_t, r_t, discount_t, a_tm1 = compiled.gather(self.finals.frames, cell, torch.get_num_threads())
        else:
            obs_tm1, obs_t, r_t, discount_t, a_tm1 = gather_batch(self._arrays(), cell)
        return ReplayBatch(obs_tm1, a_tm1, r_t, discount_t, obs_t, weight, cell)

    def _arrays(self) -> RingArrays:
        returns = self.returns
        cells = (self.frames, self.finals.frames, self.age, self.action, self.reward, self.flags, self.final)
        return RingArrays(*cells, self.B, self.spec.stack, returns.n, returns.gamma, returns.reward_clip)


def bytes_per_transition(spec: EnvSpec) -> float:
    """Memory of a ring per transition, in bytes, including the reserved final frames, but without priorities."""
    frame = math.prod(spec.frame_shape) * getattr(torch, spec.frame_dtype).itemsize
    return frame * (1 + 1 / STEPS_PER_FINAL) + 1 + (1 if spec.n_actions <= 256 else 2) + 4 + 1 + 4
