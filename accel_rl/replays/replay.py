"""A replay consists of a ring of transitions, a selection rule for batches, and a history for checkpoints."""

from collections.abc import Hashable
from dataclasses import fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from accel_rl.checkpoints.tensor_file import Segment
from accel_rl.data.rollout import Rollout
from accel_rl.data.staging import Staging
from accel_rl.distributed.communicator import Communicator
from accel_rl.kernels.ring_arrays import SAMPLEABLE
from accel_rl.machine.devices import Device
from accel_rl.replays.ring import NONE, FrameRing, ReplayBatch

SEGMENT_BYTES = 32 * 2**20  # Approximate size of a segment of rows in a checkpoint
_CELLS = ("frames", "age", "action", "reward", "flags")
_KNOWN_TO_HOST = ("age", "flags")  # Arrays that are restored in `HostCells`, and copied from there to a GPU


class History:
    """A replay's rows in segments of a fixed number of rows. A complete segment is saved once, and the rows after the
    last complete segment are saved with each checkpoint."""

    def __init__(self, ring: FrameRing):
        self.ring = ring
        self.rows = max(1, SEGMENT_BYTES // (ring.B * (ring.frames[0].nbytes + 8)))
        # Lists (low, high, segment) of each complete segment, which contains the rows [low, high).
        self._full_segments: list[tuple[int, int, Segment]] = []
        self._unread: set[_Rows] = set()  # The rows of the newest checkpoint that have not been read

    def state_dict(self) -> dict[str, Any]:
        ring = self.ring
        self._full_segments = [s for s in self._full_segments if s[1] > ring.oldest]
        low = max(self._full_segments[-1][1] if self._full_segments else 0, ring.oldest)
        self._unread.clear()
        segments = list(self._full_segments)
        while low < ring.cursor:
            boundary = (low // self.rows + 1) * self.rows
            high = min(boundary, ring.cursor)
            segments.append((low, high, self._segment(low, high)))
            if high == boundary:
                self._full_segments.append(segments[-1])
            low = high
        return {
            "cursor": ring.cursor,
            "rows": [[low, high] for low, high, _ in segments],
            "segments": [segment for _, _, segment in segments],
        }

    def _segment(self, low: int, high: int) -> Segment:
        self._unread.add(rows := _Rows(self, low, high))
        return Segment(f"rows-{low:012d}-{high:012d}", rows.load)

    def make_room(self, T: int) -> None:
        """Before the next T rows replace old rows, read the old rows that the newest checkpoint has not read."""
        for rows in self._unread:
            if rows.low < self.ring.cursor + T - self.ring.L:
                rows.keep()

    def read(self, low: int, high: int) -> dict[str, Tensor]:
        ring = self.ring
        assert low >= ring.oldest, "a segment is saved with the checkpoint that first holds it"
        row = torch.arange(low, high) % ring.L
        position = (row[:, None] * ring.B + torch.arange(ring.B)).flatten()
        on_device = position.to(ring.device)
        tensors = {name: getattr(ring, name).index_select(0, on_device).cpu() for name in _CELLS}
        # The bit SAMPLEABLE depends on later steps, so it is not saved, but recomputed after a restore.
        tensors["flags"] &= ~SAMPLEABLE & 0xFF
        if ring.states is not None:
            tensors["states"] = ring.states.read(low, high)
        final = ring.host.final[position]
        tensors["ended"] = ended = (final >= 0).nonzero().squeeze(-1)
        tensors["final_frames"] = ring.finals.frames[final[ended].long().to(ring.device)].cpu()
        return tensors

    def forget(self, rows: "_Rows") -> None:
        self._unread.discard(rows)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ConfigError for a damaged segment, and ValueError if the saved ring has another shape than this
        ring."""
        ring, B = self.ring, self.ring.B
        ring.cursor = state["cursor"]
        ring.host.final.fill_(NONE)
        ring.finals.clear()
        self._full_segments = []
        for (low, high), segment in zip(state["rows"], state["segments"], strict=True):
            tensors = segment.load()
            n = len(tensors["age"]) // B
            if len(tensors["age"]) != (high - low) * B or tensors["frames"].shape[1:] != ring.frames.shape[1:]:
                raise ValueError(f"the replay's {segment.name} holds {n} rows of another environment or size")
            skip = max(0, ring.oldest - low)
            row = torch.arange(low + skip, high) % ring.L
            position = (row[:, None] * B + torch.arange(B)).flatten()
            for name in _CELLS:
                array = getattr(ring.host if name in _KNOWN_TO_HOST else ring, name)
                array[position.to(array.device)] = tensors[name][skip * B :].to(array.device)
            if ring.states is not None:
                ring.states.load(low + skip, high, tensors["states"])
            ended = tensors["ended"]
            kept = ended >= skip * B
            if kept.any():
                slots = ring.finals.put(tensors["final_frames"][kept])
                ring.host.final[position[ended[kept] - skip * B]] = slots
            if high % self.rows == 0:
                self._full_segments.append((low, high, segment))


class Selection(Protocol):
    """Selects the transitions of a batch: `Uniform` or `Prioritized`."""

    communicator: Communicator
    generator: torch.Generator
    has_priorities: bool

    @property
    def key(self) -> Hashable: ...
    def appended(self, before: tuple[int, int]) -> None: ...
    def draw(self, N: int) -> tuple[Tensor, Tensor]: ...
    def update(self, cell: Tensor, error: Tensor) -> None: ...
    def anneal(self, progress: float) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class _Rows:
    """The rows [low, high) of a replay, until a checkpoint has read them."""

    def __init__(self, history: History, low: int, high: int):
        self._history, self.low, self._high = history, low, high
        self._kept: dict[str, Tensor] | None = None

    def keep(self) -> None:
        """Read the rows before the checkpoint does, because new rows are about to overwrite them."""
        if self._kept is None:
            self._kept = self._history.read(self.low, self._high)

    def load(self) -> dict[str, Tensor]:
        self.keep()
        result, self._kept = self._kept, None
        self._history.forget(self)
        assert result is not None
        return result


class Replay:
    """Stores rollouts (`append`), draws batches (`sample`), and sets priorities from the errors of a batch (`update`).

    Several replays may use the same ring, but only one replay appends rollouts to the ring.

    If the ring and the batches are on the same GPU, no method synchronizes with the GPU. On a single GPU, `sample` and
    `update` can be captured as a CUDA graph for a fixed number of transitions. The random generator `generator` must be
    registered with the graph, and a new graph must be captured whenever `key` changes.
    """

    def __init__(
        self, ring: FrameRing, selection: Selection, device: str | torch.device | None = None, owner: bool = True
    ):
        """`device` is the device of the batches, by default the ring's device."""
        self.ring, self.selection = ring, selection
        ring_device = ring.frames.device
        # The device of an allocated tensor includes the index, such as cuda:0.
        self.device = ring_device if device is None else torch.empty(0, device=device).device
        self._is_moving = self.device != ring_device
        self._history = History(ring.steps) if owner else None
        self._seen = ring.eligible
        self._staging = Staging(self.device)

    @property
    def is_capturable(self) -> bool:
        """Whether `sample` and `update` can be captured as a CUDA graph."""
        return Device(self.device).queues_work and not self._is_moving

    @property
    def key(self) -> Hashable:
        """Captured draws become invalid when the key changes, which happens rarely, and only at an `append`."""
        return self.ring.key, self.selection.key

    @property
    def generator(self) -> torch.Generator:
        """The random generator of the draws, on the ring's device."""
        return self.selection.generator

    def join(self, communicator: Communicator) -> None:
        """Declare this replay to be one rank's part of a replay that is divided among the ranks of `communicator`."""
        self.selection.communicator = communicator

    def append(self, rollout: Rollout) -> None:
        """Append a rollout to the ring. If another replay writes to the ring, only register the rows that the other
        replay has appended."""
        if self._history is not None:
            self._history.make_room(rollout.T)
            self.ring.append(rollout)
        self.selection.appended(self._seen)
        self._seen = self.ring.eligible

    def sample(self, N: int) -> ReplayBatch:
        """Raises ValueError if the replay contains no complete transition."""
        if not len(self.ring):
            raise ValueError("the replay holds no whole transition yet")
        batch = self.ring.batch(*self.selection.draw(N))
        return self._moved(batch) if self._is_moving else batch

    def draw_seed(self) -> Tensor:
        """Draw a seed [] int64 for the learner's other random numbers, on the device of the batches."""
        seed = torch.randint(2**62, (), generator=self.generator, device=self.ring.device)
        # A host replay passes the seed to the GPU as a kernel's argument, which needs no synchronization.
        return torch.full((), int(seed), device=self.device) if self._is_moving else seed

    def update(self, batch: ReplayBatch, error: Tensor) -> None:
        """Set the priorities of a batch from its errors [N]."""
        if self.selection.has_priorities:
            self.selection.update(batch.cell, error.to(self.ring.device))

    @property
    def beta(self) -> float | None:
        """The exponent of the importance weights, or None for uniform draws."""
        return getattr(self.selection, "beta", None)

    def anneal(self, progress: float) -> None:
        """`progress` is the completed fraction of the run."""
        self.selection.anneal(progress)

    def __len__(self) -> int:
        return len(self.ring)

    def state_dict(self) -> dict[str, Any]:
        history = None if self._history is None else self._history.state_dict()
        return {"history": history, "selection": self.selection.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._history is not None:
            self._history.load_state_dict(state["history"])
            self.ring.show(self.ring.steps.oldest)
        self._seen = self.ring.eligible
        self.selection.load_state_dict(state["selection"])

    def _moved(self, batch: ReplayBatch) -> ReplayBatch:
        """Copy a batch from the ring's device to the device of the batches."""
        values = {f.name: getattr(batch, f.name) for f in fields(batch) if f.name != "cell"}
        tensors = {name: x for name, x in values.items() if isinstance(x, Tensor)}
        if Device(self.ring.device).queues_work:
            queued = Device(self.device).queues_work
            moved = {name: x.to(self.device, non_blocking=queued) for name, x in tensors.items()}
        else:
            moved = {name: self._staging.put(x) for name, x in tensors.items()}
        return replace(batch, **moved)  # `cell` stays on the ring's device.
