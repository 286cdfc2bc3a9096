"""A replay: a ring with a selection of its cells."""

from collections.abc import Hashable
from typing import Any, Protocol

import torch
from torch import Tensor

from accel_rl.data.replay_batch import ReplayBatch
from accel_rl.data.rollout import Rollout
from accel_rl.distributed.communicator import Communicator
from accel_rl.replays.history import History
from accel_rl.replays.ring import FrameRing


class Selection(Protocol):
    """Selects the cells of a batch: `Uniform` or `Prioritized`."""

    communicator: Communicator
    generator: torch.Generator

    def appended(self, before: tuple[int, int]) -> None: ...
    def draw(self, N: int) -> tuple[Tensor, Tensor]: ...
    def update(self, cell: Tensor, error: Tensor) -> None: ...
    def anneal(self, progress: float) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Replay:
    """`append` rollouts, `sample` batches, `update` priorities with the batches' errors.

    Several replays may share a ring: its owner writes to it, the others only read it.
    """

    def __init__(
        self, ring: FrameRing, selection: Selection, device: str | torch.device | None = None, owner: bool = True
    ):
        """device: device of the batches; None: the ring's."""
        self.ring, self.selection = ring, selection
        self.device = ring.device if device is None else torch.device(device)
        self._history = History(ring) if owner else None
        self._seen = ring.eligible

    def join(self, communicator: Communicator) -> None:
        """Make this replay one part of a replay that is divided among the ranks."""
        self.selection.communicator = communicator

    def append(self, rollout: Rollout) -> None:
        """Append a rollout. A replay that does not own its ring only notes the rows that the owner has appended."""
        if self._history is not None:
            self.ring.append(rollout)
        self.selection.appended(self._seen)
        self._seen = self.ring.eligible

    def sample(self, N: int) -> ReplayBatch:
        """Draw N transitions. Raises ValueError if there are too few."""
        if not len(self.ring):
            raise ValueError("the replay holds no whole transition yet")
        batch = self.ring.batch(*self.selection.draw(N))
        return batch if self.device == self.ring.device else _moved(batch, self.device)

    def update(self, batch: ReplayBatch, error: Tensor) -> None:
        """Set the priorities of a batch's cells from its errors [N]."""
        self.selection.update(batch.cell.to(self.ring.device), error.to(self.ring.device))

    @property
    def key(self) -> Hashable:
        """What draws depend on besides the contents of tensors."""
        return self.ring.refused > 0

    @property
    def generators(self) -> list[torch.Generator]:
        """The generators that batches are drawn from."""
        return [self.selection.generator]

    def anneal(self, progress: float) -> None:
        """Advance schedules. progress: fraction of the run that is done."""
        self.selection.anneal(progress)

    def __len__(self) -> int:
        return len(self.ring)

    def state_dict(self) -> dict[str, Any]:
        history = None if self._history is None else self._history.state_dict()
        return {"history": history, "selection": self.selection.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._history is not None:
            self._history.load_state_dict(state["history"])
        self._seen = self.ring.eligible
        self.selection.load_state_dict(state["selection"])


def _moved(batch: ReplayBatch, device: torch.device) -> ReplayBatch:
    fields = {name: getattr(batch, name).to(device, non_blocking=True) for name in ReplayBatch.__slots__}
    return ReplayBatch(**fields)
