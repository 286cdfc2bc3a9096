"""The memory of a sampler's rollouts: host memory, or GPU memory if games are emulated on the GPU."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import SENTINEL_ACTION, SENTINEL_REWARD, TENSORS, RolloutArrays, sentinel
from accel_rl.machine.devices import Device, runtime


class RolloutMemory(Protocol):
    """The buffers of a sampler, each of which stores one rollout [T, B]."""

    rollouts: list[Rollout]
    resident: bool
    """Whether the rollouts are in the memory of the GPU on which the environments run."""
    skips: bool
    """Whether some environments are idle (`skip`)."""

    def clear(self) -> None:
        """Fill all rollouts with sentinel values, by which tests detect reads of cells that have not been written."""

    def arrays(self, buffer: int) -> RolloutArrays:
        """Return a rollout as NumPy arrays. Frames on a GPU are None."""

    def skip(self, idle: np.ndarray | None) -> None:
        """From the next rollout on, do not step environments where `idle` [B] is true. If `idle` is None, step all
        environments."""

    def skip_idle(self, buffer: int, t: int, b: slice) -> None:
        """Replace the actions of idle environments by the sentinel value, so that these environments are not
        stepped."""

    def carry_over(self, buffer: int, following: int, b: slice = slice(None)) -> None:
        """Copy the last frames and ages of environments `b` to the start of the next rollout, in the buffer
        `following`."""

    def first(self, buffer: int) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the frames [S, B, *frame_shape] and ages [B] (steps since the reset) at the start of a
        rollout."""

    def set_first(self, buffer: int, frames: Any, age: Any) -> None:
        """Restore the frames and ages that `first` returned."""

    def side_by_side(self, enabled: bool) -> AbstractContextManager[None]:
        """A context in which, if `enabled`, each group of environments runs on its own CUDA stream."""

    def turn(self, group: int) -> AbstractContextManager[Any]:
        """A context in which a group's actions are computed and its environments are stepped, on the group's own CUDA
        stream within `side_by_side(True)`."""


class HostMemory:
    resident = False
    skips = False

    def __init__(self, buffers: Sequence[RolloutArrays]):
        self._buffers = buffers
        self.rollouts = [Rollout.over(arrays) for arrays in buffers]
        self._idle: np.ndarray | None = None

    def clear(self) -> None:
        for arrays in self._buffers:
            arrays.fill_sentinels()

    def arrays(self, buffer: int) -> RolloutArrays:
        return self._buffers[buffer]

    def skip(self, idle: np.ndarray | None) -> None:
        self._idle, self.skips = idle, idle is not None

    def skip_idle(self, buffer: int, t: int, b: slice) -> None:
        if self._idle is not None:
            self._buffers[buffer].action[t, b][self._idle[b]] = sentinel(self._buffers[buffer].action)

    def carry_over(self, buffer: int, following: int, b: slice = slice(None)) -> None:
        arrays, after = self._buffers[buffer], self._buffers[following]
        after.frames[: after.stack, b] = arrays.frames[-after.stack :, b]
        after.age[0, b] = arrays.age[-1, b]

    def first(self, buffer: int) -> tuple[np.ndarray, np.ndarray]:
        arrays = self._buffers[buffer]
        return arrays.frames[: arrays.stack].copy(), arrays.age[0].copy()

    def set_first(self, buffer: int, frames: Any, age: Any) -> None:
        arrays = self._buffers[buffer]
        arrays.frames[: arrays.stack] = np.asarray(frames)
        arrays.age[0] = np.asarray(age)

    def side_by_side(self, enabled: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def turn(self, group: int) -> AbstractContextManager[Any]:
        return nullcontext()


class ResidentMemory:
    """Rollouts in GPU memory. While the frames of one group are drawn, another group is stepped.

    stream of group A   | act | step | draw | act | step | draw | ...
    stream of group B         | act | step | draw | act | step | ...
    """

    resident = True
    skips = False

    def __init__(self, rollouts: list[Rollout], groups: int, device: torch.device):
        self.rollouts, self._device = rollouts, device
        self._module = runtime(device)
        self._streams = [Device(device).stream(self) for _ in range(groups)]
        self._is_side_by_side = False
        self._idle = torch.zeros(rollouts[0].B, dtype=torch.bool, device=device)

    def clear(self) -> None:
        for rollout in self.rollouts:
            rollout.action.fill_(SENTINEL_ACTION)
            rollout.reward.fill_(SENTINEL_REWARD)

    def arrays(self, buffer: int) -> RolloutArrays:
        rollout = self.rollouts[buffer].on_host

        def array(x: Tensor) -> Any:
            return x.numpy() if x.device.type == "cpu" else None

        info = np.zeros((rollout.T, rollout.B, 0), np.uint8)  # Atari games report no numbers in addition to the score.
        cells = {name: array(getattr(rollout, name)) for name in TENSORS}
        return RolloutArrays(**cells, info=info, stack=rollout.stack)

    def skip(self, idle: np.ndarray | None) -> None:
        self.skips = idle is not None
        if idle is not None:
            self._idle.copy_(torch.from_numpy(idle))

    def skip_idle(self, buffer: int, t: int, b: slice) -> None:
        if self.skips:
            self.rollouts[buffer].action[t, b].masked_fill_(self._idle[b], SENTINEL_ACTION)

    def carry_over(self, buffer: int, following: int, b: slice = slice(None)) -> None:
        rollout, after = self.rollouts[buffer], self.rollouts[following]
        after.frames[: after.stack, b].copy_(rollout.frames[-after.stack :, b])
        after.age[0, b].copy_(rollout.age[-1, b])

    def first(self, buffer: int) -> tuple[np.ndarray, np.ndarray]:
        rollout = self.rollouts[buffer]
        return rollout.frames[: rollout.stack].cpu().numpy().copy(), rollout.age[0].cpu().numpy().copy()

    def set_first(self, buffer: int, frames: Any, age: Any) -> None:
        rollout = self.rollouts[buffer]
        rollout.frames[: rollout.stack].copy_(torch.from_numpy(np.array(frames)))
        rollout.age[0].copy_(torch.from_numpy(np.array(age)))

    @contextmanager
    def side_by_side(self, enabled: bool) -> Iterator[None]:
        streams = self._streams if enabled else []
        for stream in streams:
            stream.wait_stream(self._module.current_stream(self._device))
        self._is_side_by_side = enabled
        try:
            yield
        finally:
            self._is_side_by_side = False
        for stream in streams:
            self._module.current_stream(self._device).wait_stream(stream)

    def turn(self, group: int) -> AbstractContextManager[Any]:
        return self._module.stream(self._streams[group]) if self._is_side_by_side else nullcontext()
