"""The action server: infers actions from a group's newest frames, one batch at a time."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any

import torch

from accel_rl.agents.base import Agent
from accel_rl.data.page_locked import PageLocked
from accel_rl.data.rnn_state import RnnState
from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.kernels.activation_cache import ActivationCache
from accel_rl.kernels.elementwise import copy_
from accel_rl.models.precision import Precision, autocast_for
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.inference.captured import CapturedInference
from accel_rl.samplers.inference.cuda_graph import CudaGraphInference
from accel_rl.system.hardware import pin

ARRAYS = tuple(name for name in RolloutArrays.__slots__ if name != "stack")  # what host and device both hold
_AFTER_STEPS = ("final_frames", "action", "reward", "terminated", "truncated", "ended", "valid")


def is_open_loop(agent: Agent) -> bool:
    """Whether the agent's actions do not depend on observations or rewards, so that they can be drawn at any time."""
    return not agent.needs_obs and not agent.state_size


class ActionServer:
    """Infers for one group at a time, reading and writing the rollout's memory in place.

    On a GPU each new frame is copied there once, asynchronously from page-locked memory, and stacks are rebuilt there.
    If the server shares its cores with the workers, it moves to the next of `cores` for each batch: on one core it
    would take all its time from the same worker, for which the others would wait.
    """

    def __init__(
        self,
        host: list[Rollout],
        grouping: Grouping,
        device: str,
        threads: int = 1,
        cores: tuple[int, ...] = (),
        precision: Precision = "float32",
        cache_activations: bool = False,
        capture: bool = True,
        note: Callable[[str], None] = lambda line: None,
    ):
        """host: the buffers' rollouts. threads: of one torch operation. cache_activations: keep the outputs of layers
        for the update. capture: replay captured inference where possible. note: gets a line where it is not."""
        self._threads, self._cores, self._turn, self._precision = threads, cores, 0, precision
        self.host, self.device = host, torch.device(device)
        on_cpu = self.device.type == "cpu"
        self.rollouts = host if on_cpu else [_mirror(r, self.device) for r in host]
        self._groups = [grouping.group(g) for g in range(grouping.groups)]
        self._cache = ActivationCache() if cache_activations and on_cpu else None
        self._locked = None if on_cpu else PageLocked(getattr(r, name) for r in host for name in ARRAYS)
        self._inference: CapturedInference | CudaGraphInference
        if on_cpu:
            self._inference = CapturedInference(self._groups, self._cache, capture, note)
        else:
            self._inference = CudaGraphInference(self._groups, host, self.rollouts, self._act_on, capture, note)
        for rollout in self.rollouts:
            rollout.activation_cache = self._cache
        self.state: torch.Tensor | None = None  # [B, Z], a recurrent agent's
        self._uniform: dict[int, torch.Tensor] = {}  # by buffer, [T, B]
        self._one_at_a_time = Lock()  # for agents that are not reentrant
        self._is_unseen = [False] * len(host)  # by buffer: actions were drawn at once, and no frame was fetched

    def draw_all(self, agent: Agent, buffer: int, uniform: torch.Tensor) -> None:
        """Draw all actions of a rollout, by an open-loop agent. uniform [T, B]: the numbers they are drawn by."""
        rollout = self.rollouts[buffer]
        if self._cache is not None:
            self._cache.void()
        rollout.state = None if self.state is None else self.state.clone()
        unseen: Any = None
        action, recorded = agent.act(unseen, uniform.flatten(), None)
        self.host[buffer].action.copy_(action.view_as(uniform))
        rollout.recorded.update({name: x.view_as(uniform) for name, x in recorded.items()})
        self._is_unseen[buffer] = True

    def begin(self, agent: Agent, buffer: int, uniform: torch.Tensor, ahead: bool = False) -> None:
        """Take over frames and recurrent state from before the rollout's first step. uniform [T, B].

        ahead: the rollout before is still being served, for the same agent, which has no recurrent state.
        """
        rollout, self._uniform[buffer] = self.rollouts[buffer], uniform
        self._inference.begin(buffer, rollout, uniform)
        if ahead:
            return
        self._inference.use(agent, torch.is_autocast_enabled(self.device.type))
        self._refresh: Callable[[slice], bool] | None = getattr(agent, "refresh", None)
        self._acting: Callable[[], AbstractContextManager[None]] = nullcontext
        if self._refresh is not None:
            self._acting = getattr(agent, "acting", nullcontext)
        if self._cache is not None:
            self._cache.begin(rollout.action)
        if agent.state_size and self.state is None:
            self.state = torch.zeros(rollout.B, agent.state_size, device=self.device)
        rollout.state = None if self.state is None else self.state.clone()
        # While workers step, an operation that waits for threads on every core waits for workers, too.
        self._learner_threads = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        self._fetch_first(buffer)

    def serve(self, agent: Agent, buffer: int, t: int, group: int) -> None:
        """Act for a group at step t: read its frames, write its actions and what the agent records.

        Several threads may serve different groups at once.
        """
        b = self._groups[group]
        if t:
            self._fetch(buffer, t, b)
        if self._cores:
            pin((self._cores[self._turn],))
            self._turn = (self._turn + 1) % len(self._cores)
        if self._refresh is not None and self._refresh(b) is not False and self._cache is not None:
            self._cache.invalidate()
        with self._acting():
            if not self._inference.replay(buffer, t, group):
                self._act(agent, buffer, t, group)

    def _act(self, agent: Agent, buffer: int, t: int, group: int) -> None:
        rollout, b = self.rollouts[buffer], self._groups[group]
        memory = None if self.state is None else RnnState(self.state[b], (rollout.age[t, b] == 0).unsqueeze(0))
        obs: Any = None
        if agent.needs_obs and self._inference.reads_frames and rollout.stack > 1:
            obs = rollout.frame_stacks(t, b=b)
        elif agent.needs_obs:
            obs = rollout.observations(t, b=b)
        cached = nullcontext() if self._cache is None else self._cache.writing(t * rollout.B + b.start)
        with self._inference.capturing(buffer, t, group), cached:
            action, recorded = self._act_on(agent, obs, self._uniform[buffer][t, b], b, memory)
            copy_(self.host[buffer].action[t, b], action)  # synchronises on a GPU: the actions are needed now
            for name, value in recorded.items():
                if name not in rollout.recorded:
                    whole = torch.zeros(rollout.T, rollout.B, dtype=value.dtype, device=self.device)
                    rollout.recorded.setdefault(name, whole)  # atomic: another thread may come first
                copy_(rollout.recorded[name][t, b], value)

    def _act_on(
        self, agent: Agent, obs: Any, uniform: torch.Tensor, b: slice, memory: RnnState | None = None
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        with autocast_for(self._precision, self.device), nullcontext() if agent.reentrant else self._one_at_a_time:
            return agent.act(obs, uniform, memory, b)

    def can_go_ahead(self, agent: Agent) -> bool:
        """Whether two rollouts may be served at the same time: only if no state belongs to a single rollout."""
        return not agent.state_size and self._cache is None and self.device.type == "cpu"

    def finish(self, buffer: int) -> Rollout:
        """Return the rollout on the device, after its last step."""
        rollout, host = self.rollouts[buffer], self.host[buffer]
        rollout.next_state = None if self.state is None else self.state.clone()
        is_unseen, self._is_unseen[buffer] = self._is_unseen[buffer], False
        if is_unseen:
            self._fetch_first(buffer)
        else:
            if self._cores:
                pin(self._cores)
            torch.set_num_threads(self._learner_threads)
        if self.device.type != "cpu":
            for t in range(1 if is_unseen else rollout.T, rollout.T + 1):
                self._fetch(buffer, t, slice(None))
            for name in _AFTER_STEPS:
                getattr(rollout, name).copy_(getattr(host, name), non_blocking=True)
        return rollout

    def _fetch_first(self, buffer: int) -> None:
        """Copy the frames of the first observation to the device."""
        if self.device.type != "cpu":
            rollout, host = self.rollouts[buffer], self.host[buffer]
            rollout.frames[: rollout.stack].copy_(host.frames[: rollout.stack], non_blocking=True)
            rollout.age[0].copy_(host.age[0], non_blocking=True)

    def _fetch(self, buffer: int, t: int, b: slice) -> None:
        """Copy the frames that were new at step t to the device."""
        if self.device.type != "cpu":
            rollout, host = self.rollouts[buffer], self.host[buffer]
            row = rollout.stack - 1 + t
            rollout.frames[row, b].copy_(host.frames[row, b], non_blocking=True)
            rollout.age[t, b].copy_(host.age[t, b], non_blocking=True)

    def close(self) -> None:
        """Release page-locked memory; call it before the rollouts' memory is freed."""
        if self._locked is not None:
            self._locked.close()


def _mirror(rollout: Rollout, device: torch.device) -> Rollout:
    arrays: dict[str, Any] = {name: torch.zeros_like(getattr(rollout, name), device=device) for name in ARRAYS}
    return Rollout(**arrays, stack=rollout.stack, host=rollout)
