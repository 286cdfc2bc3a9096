"""A rollout consists of T steps of B environments, time-major, and stores each frame once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from accel_rl.data.rollout_arrays import TENSORS, RolloutArrays
from accel_rl.data.staging import Staging
from accel_rl.kernels.frames import FrameStacks, gather_stacks, window_stacks

_NOT_IN_BATCHES = {"in_batches": False}
"""Metadata of the fields of a rollout that are not copied to batches."""


@dataclass(slots=True)
class RnnState:
    """The recurrent states of n environments over T steps.

    `state` [n, Z] is the recurrent state before the first step. `act` overwrites `state` with the next state. `first`
    [T, n] bool marks steps at which an episode begins; the state is reset before such a step.
    """

    state: Tensor
    first: Tensor


@dataclass(slots=True)
class Rollout:
    """T steps of B environments, as tensors over shared memory.

    `frames` are [S - 1 + T + 1, B, *frame_shape]: the observation at t consists of rows t .. t + S - 1. Where `ended`
    is true, `final_frames` [T, B, *frame_shape] has the last frames of the ended episodes; elsewhere `final_frames` is
    undefined. `age` [T + 1, B] uint8 is the number of steps since the episode's first frame, saturating at
    `EnvSpec.oldest`; frames from before the episode are read as zeros. `action` is [T, B] int64, `reward` [T, B]
    float32 is not clipped, and `terminated`, `truncated`, `ended` and `valid` are [T, B] bool (see `Step`). `recorded`
    are values that the agent recorded while acting, each [T, B], such as value and log_prob. `state` and `next_state`
    [B, Z] are a recurrent agent's state before step 0 and after step T - 1, or None for other agents. `host` is a copy
    of the rollout in host memory if the rollout is on a GPU, and is not saved. `staging` copies tensors to the
    rollout's GPU asynchronously, and is not saved.
    """

    frames: Tensor
    final_frames: Tensor = field(metadata=_NOT_IN_BATCHES)
    age: Tensor
    action: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    ended: Tensor
    valid: Tensor
    stack: int
    recorded: dict[str, Tensor] = field(default_factory=dict)
    state: Tensor | None = None
    next_state: Tensor | None = None
    host: "Rollout | None" = field(default=None, metadata=_NOT_IN_BATCHES)
    staging: Staging | None = field(default=None, metadata=_NOT_IN_BATCHES)

    def __repr__(self) -> str:
        T, B = self.action.shape
        return f"Rollout(T={T}, B={B}, frames {self.frames.dtype} {list(self.frames.shape)})"

    @classmethod
    def over(cls, arrays: RolloutArrays) -> "Rollout":
        return cls(**{n: torch.from_numpy(getattr(arrays, n)) for n in TENSORS}, stack=arrays.stack)  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        """The fields of the rollout in host memory, for a checkpoint."""
        return {name: _map(getattr(self, name), torch.Tensor.cpu) for name in self._saved()}

    @classmethod
    def _saved(cls) -> list[str]:
        return [name for name in cls.__slots__ if name not in ("host", "staging")]

    @classmethod
    def from_state(cls, state: dict[str, Any], device: torch.device | None = None) -> "Rollout":
        return cls(
            **{name: _map(value, lambda x: x if device is None else x.to(device)) for name, value in state.items()}
        )

    @property
    def on_host(self) -> "Rollout":
        """The rollout in host memory, without the agent's recorded values. Does not synchronize with a GPU."""
        return self if self.host is None else self.host

    @property
    def env_steps(self) -> int:
        return int(self.on_host.valid.sum())

    @property
    def is_whole(self) -> bool:
        """Whether all steps are valid."""
        return bool(self.on_host.valid.all())

    def valid_cells(self) -> Tensor:
        """Indices t * B + b [N] of the valid steps (t, b), in order, on the rollout's device, without synchronizing
        with a GPU."""
        return self._on_device(self.on_host.valid.reshape(-1).nonzero().squeeze(-1))

    def time_limits(self) -> tuple[Tensor, Tensor] | None:
        """Indices (t [N], b [N]) of the steps at which a time limit cut an episode, or None if no episode was cut."""
        host = self.on_host
        t, b = torch.nonzero(host.truncated & ~host.terminated, as_tuple=True)
        if not len(t):
            return None
        t, b = self._on_device(torch.stack([t, b]))
        return t, b

    def _on_device(self, host: Tensor) -> Tensor:
        return host.to(self.action.device) if self.staging is None else self.staging.put(host)

    @property
    def T(self) -> int:
        return self.action.shape[0]

    @property
    def B(self) -> int:
        return self.action.shape[1]

    def observation(self, t: Tensor, b: Tensor) -> Tensor:
        """Observations [N, S, *frame_shape] at steps t [N] of environments b [N], where t is at most T."""
        return gather_stacks(self.frames, t, b, self.age[t, b], self.stack)

    def observations(self, t: int, T: int = 1, b: slice = slice(None)) -> Tensor:
        """Observations [T * n, S, *frame_shape] of T successive steps of environments `b`, beginning at step t. The T
        observations may include the observation after the rollout's last step."""
        if self.stack == 1:
            return self.frames[t : t + T, b].flatten(0, 1)
        return self.frame_stacks(t, T, b).gather()

    def frame_stacks(self, t: int, T: int = 1, b: slice = slice(None)) -> FrameStacks:
        """Same as `observations`, without copying frames."""
        return window_stacks(self.frames, self.age, t, T, b, self.stack)

    def memory(self, t: int = 0, T: int | None = None, b: slice | Tensor = slice(None)) -> RnnState | None:
        """The recurrent state of the environments `b` for T steps, beginning at step t, which must be 0 or the
        rollout's end. By default, T is the number of steps from t to the rollout's end."""
        state = self.state if t == 0 else self.next_state
        if state is None:
            return None
        T = self.T - t if T is None else T
        assert t in (0, self.T)
        return RnnState(state[b], self.age[t : t + T, b] == 0)

    def final_observation(self, t: Tensor, b: Tensor) -> Tensor:
        """Last observations [N, S, *frame_shape] of the episodes that ended at steps t [N] of environments b [N]."""
        age = (self.age[t, b].long() + 1).clamp(max=self.stack - 1)
        obs = gather_stacks(self.frames, t + 1, b, age, self.stack)
        newest = self.final_frames[t, b]
        if self.stack == 1 and obs.dim() == newest.dim():
            return newest
        obs[:, -1] = newest
        return obs


def _map(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, dict):
        return {name: change(x) for name, x in value.items()}
    return change(value) if isinstance(value, Tensor) else value
