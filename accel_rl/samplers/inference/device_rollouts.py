"""Copies rollouts between host memory and a GPU.

    copy stream     | frames A |        | frames B |                                    | first frames |
    current stream             | act A, actions A |  | act B, actions B | ... |           update            | act A ...
    host            wait A ... | wait B's frames  | actions A: release A | ...

Each new frame is copied to the GPU once, when its group of environments is ready. The copies of one group's frames
overlap the inference for another group, and those of a rollout's first frames overlap the update from the last rollout.
All buffers are parts of the same tensors, so that one captured CUDA graph can be used for every buffer: step t of a
buffer is row `buffer * rows + t` of a tensor.
"""

import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from accel_rl.data.page_locked import PageLocked
from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import TENSORS
from accel_rl.data.staging import Staging
from accel_rl.machine.devices import Device, runtime

_AFTER_STEPS = ("action", "reward", "terminated", "truncated", "ended", "valid")


class DeviceRollouts:
    def __init__(self, host: list[Rollout], groups: list[slice], device: torch.device):
        self.host = host
        self._groups = groups
        self._device = device
        first = host[0]
        self.rows = len(first.frames)
        """The number of rows of each buffer, T + S."""
        self.stack = first.stack
        self.frames = self._for_all(first.frames.dtype, *first.frames.shape[2:])
        """The frames of all buffers [buffers * rows, B, *frame_shape]."""
        self.age = self._for_all(first.age.dtype)
        self.random = self._for_all(torch.float32)
        """The random numbers of all buffers [buffers * rows, B] that select the actions."""
        self.recorded: dict[str, Tensor] = {}
        """Each kind of value that the agent records, by name: the values of all buffers [buffers * rows, B]."""
        self.rollouts = [self._on_device(i) for i in range(len(host))]
        self.uniform = [self._part(self.random, i, r.T) for i, r in enumerate(host)]
        self._runtime = runtime(device)
        locked = PageLocked((getattr(r, name) for r in host for name in TENSORS), device)
        # The finalizer unlocks the memory even if the constructor of a caller raises an exception.
        self._unlock = weakref.finalize(self, locked.close)
        self._unlock.atexit = False
        self._staging = Staging(device)
        for rollout in self.rollouts:
            rollout.staging = self._staging
        self._copying = Device(device).stream(self)
        # for each group, the last step (buffer, t) whose frames were copied
        self._fetched: list[tuple[int, int] | None] = [None for _ in groups]
        self._frames_copied = [self._runtime.Event() for _ in groups]
        self._actions_copied = [self._runtime.Event() for _ in groups]
        # For each buffer, a CUDA event that is recorded after the last copies of its rollout
        self._copied = [self._runtime.Event() for _ in host]
        self._let_copy()

    def begin(self, buffer: int, uniform: Tensor) -> None:
        """Copy a rollout's first frames to the GPU, and the random numbers `uniform` [T, B] that select the actions."""
        self._staging.copy(self.uniform[buffer], uniform)
        for name in self.recorded:
            self._use_recorded(name, buffer)
        self._fetched = [(buffer, 0) for _ in self._groups]
        with self._runtime.stream(self._copying):
            self._fetch_first(buffer)
            for frames_copied in self._frames_copied:
                frames_copied.record(self._copying)

    def record(self, name: str, dtype: torch.dtype) -> None:
        """Allocate memory in all buffers for a kind of value that the agent records."""
        self.recorded[name] = self._for_all(dtype)
        for buffer in range(len(self.host)):
            self._use_recorded(name, buffer)

    def _use_recorded(self, name: str, buffer: int) -> None:
        rollout = self.rollouts[buffer]
        rollout.recorded[name] = self._part(self.recorded[name], buffer, rollout.T)

    def prefetch(self, buffer: int, t: int, group: int) -> None:
        if self._fetched[group] == (buffer, t):
            return
        self._fetched[group] = buffer, t
        with self._runtime.stream(self._copying):
            self._fetch(buffer, t, self._groups[group])
            self._frames_copied[group].record(self._copying)

    def fetch(self, buffer: int, t: int, group: int) -> None:
        """Make later operations on the current CUDA stream wait until a group's frames of step t have been copied."""
        self.prefetch(buffer, t, group)
        self._now.wait_event(self._frames_copied[group])

    def send_actions(self, buffer: int, t: int, group: int, action: Tensor) -> None:
        """Start copying a group's actions [n] to the host."""
        self.host[buffer].action[t, self._groups[group]].copy_(action, non_blocking=True)
        self._actions_copied[group].record(self._now)

    def await_actions(self, group: int, meanwhile: Callable[[], bool] | None = None) -> None:
        """Wait until a group's actions have been copied to the host. While waiting, call `meanwhile` until it returns
        false."""
        arrived = self._actions_copied[group]
        while meanwhile is not None and not arrived.query() and meanwhile():
            time.sleep(0)  # sleep(0) releases the GIL, for which a training thread would otherwise wait 5 ms.
        arrived.synchronize()  # `synchronize` also releases the GIL.

    def finish(self, buffer: int, is_unseen: bool) -> None:
        """Copy the data to the GPU that were not copied during the rollout. If `is_unseen`, no frames were copied
        during the rollout, and the host did not wait for actions, so `finish` waits until the host may overwrite the
        memory of the next rollout."""
        rollout = self.rollouts[buffer]
        host = self.host[buffer]
        last = self.rollouts[buffer].T
        if is_unseen:
            self._fetch_first(buffer)
            rollout.frames[rollout.stack :].copy_(host.frames[host.stack :], non_blocking=True)
            rollout.age[1:].copy_(host.age[1:], non_blocking=True)
        else:
            self._fetch(buffer, last, slice(None))
        for name in _AFTER_STEPS:
            getattr(rollout, name).copy_(getattr(host, name), non_blocking=True)
        for t, b in host.ended.nonzero().tolist():  # This loop is short, because few steps end an episode.
            rollout.final_frames[t, b].copy_(host.final_frames[t, b], non_blocking=True)
        self._copied[buffer].record(self._now)
        self._let_copy()
        if is_unseen:
            following = self._copied[(buffer + 1) % len(self.host)]
            if not following.query():
                following.synchronize()

    def _let_copy(self) -> None:
        """Make later copies of frames wait for all operations queued so far, because updates from earlier rollouts may
        still read the next buffer. The update from this rollout is queued afterwards, and does not delay the copies."""
        self._copying.wait_stream(self._now)

    @property
    def _now(self) -> Any:
        return self._runtime.current_stream(self._device)

    def _fetch_first(self, buffer: int) -> None:
        rollout, host = self.rollouts[buffer], self.host[buffer]
        rollout.frames[: rollout.stack].copy_(host.frames[: host.stack], non_blocking=True)
        rollout.age[0].copy_(host.age[0], non_blocking=True)

    def _fetch(self, buffer: int, t: int, b: slice) -> None:
        rollout, host = self.rollouts[buffer], self.host[buffer]
        row = rollout.stack - 1 + t
        rollout.frames[row, b].copy_(host.frames[row, b], non_blocking=True)
        rollout.age[t, b].copy_(host.age[t, b], non_blocking=True)

    def close(self) -> None:
        self._runtime.synchronize(self._device)
        self._unlock()

    def _for_all(self, dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.zeros(len(self.host) * self.rows, self.host[0].B, *shape, dtype=dtype, device=self._device)

    def _part(self, x: Tensor, buffer: int, rows: int) -> Tensor:
        """Return the first `rows` rows of a buffer in a tensor [buffers * self.rows, ...]."""
        begin = buffer * self.rows
        return x[begin : begin + rows]

    def _on_device(self, buffer: int) -> Rollout:
        host = self.host[buffer]
        apart = [name for name in TENSORS if name not in ("frames", "age")]
        arrays: dict[str, Any] = {n: torch.zeros_like(getattr(host, n), device=self._device) for n in apart}
        arrays |= {n: self._part(getattr(self, n), buffer, len(getattr(host, n))) for n in ("frames", "age")}
        return Rollout(**arrays, stack=host.stack, host=host)
