"""Turns a group's newest frames into actions, one batch at a time."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any, cast

import torch

from accel_rl.agents.base import Agent
from accel_rl.data.rnn_state import RnnState
from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.kernels.activation_cache import ActivationCache
from accel_rl.kernels.elementwise import copy_
from accel_rl.models.precision import Precision, autocast_for
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.inference.captured import CapturedInference
from accel_rl.samplers.inference.cuda_graph import CudaGraphInference
from accel_rl.samplers.inference.page_locked import PageLocked
from accel_rl.system.hardware import pin

ARRAYS = tuple(name for name in RolloutArrays.__slots__ if name != "stack")  # a rollout's, that both sides have


def chosen(agent: Agent) -> bool:
    """Whether its actions depend on nothing that happens: they can be chosen at any time."""
    return not agent.needs_obs and not agent.state_size


class ActionServer:
    """Infers for one group at a time, straight from and into the rollout's memory.

    On a GPU each new frame is copied there once (asynchronously, from page-locked memory); stacks are rebuilt on the
    device, and all from them to the actions is one CUDA graph for each group.
    Where it shares its cores with the workers it moves to the next of `cores` for each batch: on one core it would take
    all its time from the same worker, for whom the others would wait.
    """

    def __init__(
        self,
        host: list[Rollout],
        grouping: Grouping,
        device: str,
        threads: int = 1,
        cores: tuple[int, ...] = (),
        precision: Precision = "float32",
        keep: bool = False,
    ):
        self._threads, self._cores, self._turn, self._precision = threads, cores, 0, precision
        self.host, self.device = host, torch.device(device)
        self.rollouts = host if self.device.type == "cpu" else [_mirror(r, self.device) for r in host]
        self._groups = [grouping.group(g) for g in range(grouping.groups)]
        self._kept = ActivationCache() if keep and self.device.type == "cpu" else None
        self._locked: PageLocked | None = None
        self._acts: CapturedInference | CudaGraphInference
        if self.device.type == "cpu":
            self._acts = CapturedInference(self._groups, self._kept)
        else:
            self._locked = PageLocked(getattr(r, name) for r in host for name in ARRAYS)
            self._acts = CudaGraphInference(self._groups, host, self.rollouts, self._call)
        for rollout in self.rollouts:
            rollout.kept = self._kept  # of the newest of them
        self.state: torch.Tensor | None = None  # [B, Z], a recurrent agent's memory
        self._uniform: dict[int, torch.Tensor] = {}  # by buffer, [T, B]
        self._alone = Lock()
        self._unseen = [False] * len(host)  # by buffer: all actions were chosen at once, nothing was fetched

    def choose(self, agent: Agent, buffer: int, uniform: torch.Tensor) -> None:
        """All actions of a rollout, by an agent whose actions are `chosen`. uniform [T, B]: what they are drawn by."""
        rollout, unseen = self.rollouts[buffer], cast(Any, None)
        if self._kept is not None:
            self._kept.void()
        rollout.state = None if self.state is None else self.state.clone()
        action, recorded = agent.act(unseen, uniform.flatten(), None)
        self.host[buffer].action.copy_(action.view_as(uniform))
        rollout.recorded.update({name: x.view_as(uniform) for name, x in recorded.items()})
        self._unseen[buffer] = True

    def begin(self, agent: Agent, buffer: int, uniform: torch.Tensor, ahead: bool = False) -> None:
        """Take over the frames, and what the agent remembers, from before the rollout's first step. uniform [T, B].

        ahead: the rollout before is still being served, by the same agent, which remembers nothing.
        """
        rollout, self._uniform[buffer] = self.rollouts[buffer], uniform
        self._acts.begin(buffer, rollout, uniform)
        if ahead:
            return
        self._acts.play(agent, torch.is_autocast_enabled(self.device.type))
        self._refresh: Callable[[slice], bool] | None = getattr(agent, "refresh", None)
        self._acting: Callable[[], AbstractContextManager[None]] = nullcontext
        if self._refresh is not None:
            self._acting = getattr(agent, "acting", nullcontext)
        if self._kept is not None:
            self._kept.begin(rollout.action)
        if agent.state_size and self.state is None:
            self.state = torch.zeros(rollout.B, agent.state_size, device=self.device)
        rollout.state = None if self.state is None else self.state.clone()
        # While workers step beside it, an operation that waits for threads on every core waits for workers, too.
        self._learner_threads = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        self._fetch_first(buffer)

    def serve(self, agent: Agent, buffer: int, t: int, group: int) -> None:
        """Act for a group at step t: reads its frames, writes its actions, notes what the agent recorded.

        For several groups at once, from a thread each.
        """
        b = self._groups[group]
        if t:
            self._fetch(buffer, t, b)
        if self._cores:
            pin((self._cores[self._turn],))
            self._turn = (self._turn + 1) % len(self._cores)
        if self._refresh is not None and self._refresh(b) is not False and self._kept is not None:
            self._kept.invalidate()
        with self._acting():
            if not self._acts.again(buffer, t, group):
                with self._acts.recording(buffer, t, group):
                    self._act(agent, buffer, t, b)

    def calls(self, buffer: int, group: int) -> Any | None:
        """All there is to do for the group at any step of the buffer's rollout, if it was recorded."""
        if self._cores or self._refresh is not None or not isinstance(self._acts, CapturedInference):
            return None
        return self._acts.calls(buffer, group)

    def made(self, group: int, times: int) -> None:
        """Those calls, so often."""
        assert isinstance(self._acts, CapturedInference)
        self._acts.made(group, times)

    def _act(self, agent: Agent, buffer: int, t: int, b: slice) -> None:
        rollout = self.rollouts[buffer]
        memory = None if self.state is None else RnnState(self.state[b], (rollout.age[t, b] == 0).unsqueeze(0))
        obs: Any = rollout.observations(t, b=b) if agent.needs_obs else None  # a memory alone may choose
        with nullcontext() if self._kept is None else self._kept.writing(t * rollout.B + b.start):
            action, recorded = self._call(agent, obs, self._uniform[buffer][t, b], b, memory)
        copy_(self.host[buffer].action[t, b], action)  # synchronises on a GPU: the actions are needed now
        for name, value in recorded.items():
            if name not in rollout.recorded:
                whole = torch.zeros(rollout.T, rollout.B, dtype=value.dtype, device=self.device)
                rollout.recorded.setdefault(name, whole)  # in one piece: another thread may come first
            copy_(rollout.recorded[name][t, b], value)

    def _call(
        self, agent: Agent, obs: Any, uniform: torch.Tensor, b: slice, memory: RnnState | None = None
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        with autocast_for(self._precision, self.device), nullcontext() if agent.reentrant else self._alone:
            return agent.act(obs, uniform, memory, b)

    def goes_ahead(self, agent: Agent) -> bool:
        """Whether groups can be served in two rollouts at a time: nothing is of one of them alone."""
        return not agent.state_size and self._kept is None and self.device.type == "cpu"

    def finish(self, buffer: int) -> Rollout:
        """The rollout on the device, after its last step."""
        rollout, host = self.rollouts[buffer], self.host[buffer]
        rollout.next_state = None if self.state is None else self.state.clone()
        unseen, self._unseen[buffer] = self._unseen[buffer], False
        if unseen:
            self._fetch_first(buffer)
        else:
            if self._cores:
                pin(self._cores)
            torch.set_num_threads(self._learner_threads)
        if self.device.type != "cpu":
            for t in range(1 if unseen else rollout.T, rollout.T + 1):
                self._fetch(buffer, t, slice(None))
            for name in ("final_frames", "action", "reward", "terminated", "truncated", "ended", "valid"):
                getattr(rollout, name).copy_(getattr(host, name), non_blocking=True)
        return rollout

    def _fetch_first(self, buffer: int) -> None:
        """What the first observation consists of."""
        if self.device.type != "cpu":
            rollout, host = self.rollouts[buffer], self.host[buffer]
            rollout.frames[: rollout.stack].copy_(host.frames[: rollout.stack], non_blocking=True)
            rollout.age[0].copy_(host.age[0], non_blocking=True)

    def _fetch(self, buffer: int, t: int, b: slice) -> None:
        if self.device.type != "cpu":
            rollout, host = self.rollouts[buffer], self.host[buffer]
            row = rollout.stack - 1 + t
            rollout.frames[row, b].copy_(host.frames[row, b], non_blocking=True)
            rollout.age[t, b].copy_(host.age[t, b], non_blocking=True)

    def close(self) -> None:
        """Before the rollouts' memory goes."""
        if self._locked is not None:
            self._locked.close()


def _mirror(rollout: Rollout, device: torch.device) -> Rollout:
    return Rollout(**{n: torch.zeros_like(getattr(rollout, n), device=device) for n in ARRAYS}, stack=rollout.stack)  # type: ignore[arg-type]
