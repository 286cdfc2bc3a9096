"""Rollouts of environments that run on a GPU. The rollouts are stored in GPU memory, and frames are not copied to the
host."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from accel_rl.data.page_locked import page_locked_zeros
from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import TENSORS, rollout_layout
from accel_rl.data.spec import EnvSpec
from accel_rl.data.staging import Staging
from accel_rl.machine.devices import runtime

# Names of the arrays of a rollout that are copied from the GPU to the host
KNOWN = ("age", "action", "reward", "terminated", "truncated", "ended", "valid")


def resident_rollout(spec: EnvSpec, T: int, B: int, device: torch.device) -> Rollout:
    """Allocate a rollout on a GPU. The rollout's `host` is page-locked host memory for a copy of all arrays except the
    frames."""
    cells = rollout_layout(spec, T, B)
    layout = {k: (getattr(torch, cells[k][0]), cells[k][1]) for k in TENSORS}
    on_gpu: dict[str, Any] = {k: torch.zeros(shape, dtype=dtype, device=device) for k, (dtype, shape) in layout.items()}
    on_host: dict[str, Any] = {
        k: page_locked_zeros(shape, dtype, device) if k in KNOWN else on_gpu[k] for k, (dtype, shape) in layout.items()
    }
    return Rollout(**on_gpu, stack=spec.stack, host=Rollout(**on_host, stack=spec.stack))


class ResidentRollouts:
    """Has the methods of `DeviceRollouts`, for environments that run on the GPU. The host synchronizes with the GPU
    once per rollout."""

    def __init__(self, rollouts: list[Rollout], groups: list[slice], device: torch.device):
        self.rollouts = rollouts
        self._groups = groups
        self._device = device
        self.uniform = [torch.zeros(r.T, r.B, device=device) for r in rollouts]
        self._staging = Staging(device)
        self._copied = runtime(device).Event()
        for rollout in self.rollouts:
            rollout.staging = self._staging

    def begin(self, buffer: int, uniform: Tensor) -> None:
        self._staging.copy(self.uniform[buffer], uniform)

    def record(self, name: str, dtype: torch.dtype) -> None:
        for rollout in self.rollouts:
            rollout.recorded[name] = torch.zeros(rollout.T, rollout.B, dtype=dtype, device=self._device)

    def prefetch(self, buffer: int, t: int, group: int) -> None:
        """Do nothing, because the environments write their frames on the GPU."""

    def fetch(self, buffer: int, t: int, group: int) -> None:
        """Do nothing, because the environments write their frames on the GPU."""

    def send_actions(self, buffer: int, t: int, group: int, action: Tensor) -> None:
        self.rollouts[buffer].action[t, self._groups[group]].copy_(action)

    def await_actions(self, group: int, meanwhile: Callable[[], bool] | None = None) -> None:
        """Do nothing, because the environments read the actions on the GPU."""

    def finish(self, buffer: int, is_unseen: bool) -> None:
        """Copy all arrays except the frames to the host, where for example the episodes' scores are computed."""
        rollout = self.rollouts[buffer]
        assert rollout.host is not None
        for name in KNOWN:
            getattr(rollout.host, name).copy_(getattr(rollout, name), non_blocking=True)
        self._copied.record(runtime(self._device).current_stream(self._device))
        self._copied.synchronize()

    def close(self) -> None:
        runtime(self._device).synchronize(self._device)
