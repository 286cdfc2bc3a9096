"""The action server computes the actions of a group of environments as one batch, from the group's newest frames."""

from collections.abc import Callable
from contextlib import nullcontext
from threading import Lock
from typing import Any

import torch

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import RnnState, Rollout
from accel_rl.machine.devices import Device
from accel_rl.machine.hardware import pin
from accel_rl.models.precision import Precision, autocast_for
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.inference.device_rollouts import DeviceRollouts
from accel_rl.samplers.inference.inference import PLAIN, Acceleration, Inference
from accel_rl.samplers.inference.pulling_agent import PullingAgent
from accel_rl.samplers.inference.resident import ResidentRollouts


def is_open_loop(agent: Agent) -> bool:
    """Return whether the agent's actions depend on neither observations nor rewards."""
    return not agent.needs_obs and not agent.state_size


class ActionServer:
    """Computes actions for one group of environments at a time.

    With a GPU, each new frame is copied once (`DeviceRollouts`), and stacks of frames are assembled on the GPU. If the
    action server shares its cores with the worker processes, the server moves to another core for each batch. If the
    server stayed on one core, it would always slow down the same worker process, and all other worker processes would
    wait for this process.
    """

    def __init__(
        self,
        host: list[Rollout],
        grouping: Grouping,
        device: str,
        threads: int = 1,
        cores: tuple[int, ...] = (),
        precision: Precision = "float32",
        acceleration: Acceleration = PLAIN,
        resident: bool = False,
    ):
        """`host` has one rollout in host memory per buffer. `threads` is the number of threads per torch operation.
        `acceleration` selects the implementation of inference. With `resident`, the environments run on the GPU
        `device`, and the rollouts `host` are in GPU memory."""
        self._threads = threads
        self._cores = cores
        self._turn = 0
        self._precision = precision
        self.host, self.device = host, torch.device(device)
        self._groups = [grouping.group(g) for g in range(grouping.groups)]
        self._gpu: DeviceRollouts | ResidentRollouts | None = None
        self._inference = Inference()
        if not Device(self.device).queues_work:
            self._inference = acceleration.on_cpu(self._groups)
        elif resident:
            self._gpu = ResidentRollouts(host, self._groups, self.device)
        else:
            self._gpu = DeviceRollouts(host, self._groups, self.device)
            self._inference = acceleration.on_gpu(self._groups, self._gpu, precision)
        self.rollouts = host if self._gpu is None else self._gpu.rollouts
        self.state: torch.Tensor | None = None  # The agent's recurrent state [B, Z], or None
        self._uniform: dict[int, torch.Tensor] = {}  # {buffer: uniform random numbers [T, B]}
        self._one_at_a_time = Lock()  # Serializes the calls of an agent that is not reentrant.
        # For each buffer, whether all actions were drawn before the rollout, so that no frames need to be copied
        self._is_unseen = [False] * len(host)
        self._reads_reward = False

    def draw_all(self, agent: Agent, buffer: int, uniform: torch.Tensor) -> None:
        """Select all actions of a rollout of an open-loop agent (`is_open_loop`) with the random numbers `uniform` [T,
        B]."""
        rollout = self.rollouts[buffer]
        rollout.state = self._copied_state(rollout.state)
        unseen: Any = None
        action, recorded = agent.act(unseen, uniform.flatten(), None)
        self.host[buffer].action.copy_(action.view_as(self.host[buffer].action))
        rollout.recorded.update({name: x.view_as(uniform).to(self.device) for name, x in recorded.items()})
        self._is_unseen[buffer] = True

    def begin(self, agent: Agent, buffer: int, uniform: torch.Tensor, ahead: bool = False) -> None:
        """Prepare for a rollout: copy its first frames and the recurrent state. The random numbers `uniform` [T, B]
        select the actions. With `ahead`, the previous rollout of the same agent has not ended."""
        rollout = self.rollouts[buffer]
        if self._gpu is not None:
            self._gpu.begin(buffer, uniform)
            uniform = self._gpu.uniform[buffer]
        self._uniform[buffer] = uniform
        self._inference.begin(buffer, rollout, uniform)
        if ahead:
            return
        if agent.state_size and self.state is None:
            self.state = torch.zeros(rollout.B, agent.state_size, device=self.device)
        self._reads_reward = getattr(agent, "reads_reward", False)
        self._pulling = agent if isinstance(agent, PullingAgent) else None
        acting = agent.wrapped if isinstance(agent, PullingAgent) else agent
        self._inference.use(acting, torch.is_autocast_enabled(self.device.type), self.state)
        rollout.state = self._copied_state(rollout.state)
        # While worker processes are stepping, inference uses fewer threads than the learner.
        self._learner_threads = torch.get_num_threads()
        torch.set_num_threads(self._threads)

    def prefetch(self, buffer: int, t: int, group: int) -> None:
        """Start copying a group's frames of step t to the GPU, while the GPU computes another group's actions."""
        if self._gpu is not None:
            self._gpu.prefetch(buffer, t, group)

    def serve(self, agent: Agent, buffer: int, t: int, group: int, meanwhile: Callable[[], bool] | None = None) -> None:
        """Compute a group's actions at step t, and write them and the values that the agent records into the rollout.
        Several threads may serve different groups in parallel. While waiting for a GPU, `serve` calls `meanwhile` until
        it returns false."""
        b = self._groups[group]
        if self._gpu is not None:
            self._gpu.fetch(buffer, t, group)
        if self._cores:
            pin((self._cores[self._turn],))
            self._turn = (self._turn + 1) % len(self._cores)
        if self._pulling is not None:
            self._pulling.before_act(b)
        if t:
            self._write_reward(buffer, t - 1, b)
        with nullcontext() if self._pulling is None else self._pulling.acting():
            if not self._inference.replay(buffer, t, group):
                self._act(agent, buffer, t, group)
        if self._gpu is not None:
            self._gpu.await_actions(group, meanwhile)

    def _write_reward(self, buffer: int, t: int, b: slice) -> None:
        """Copy the rewards of step t into the recurrent state, if the agent reads rewards."""
        if self._reads_reward and self.state is not None:
            self.state[b, -1].copy_(self.host[buffer].reward[t, b], non_blocking=True)

    def _act(self, agent: Agent, buffer: int, t: int, group: int) -> None:
        rollout, b = self.rollouts[buffer], self._groups[group]
        memory = None if self.state is None else RnnState(self.state[b], (rollout.age[t, b] == 0).unsqueeze(0))
        obs: Any = None
        if agent.needs_obs and self._inference.reads_frames and rollout.stack > 1:
            obs = rollout.frame_stacks(t, b=b)
        elif agent.needs_obs:
            obs = rollout.observations(t, b=b)
        with self._inference.capturing(buffer, t, group):
            with autocast_for(self._precision, self.device), nullcontext() if agent.reentrant else self._one_at_a_time:
                action, recorded = agent.act(obs, self._uniform[buffer][t, b], memory, b)
            if self._gpu is None:
                self._inference.store(self.host[buffer].action[t, b], action)
            else:
                self._gpu.send_actions(buffer, t, group, action)
            for name, value in recorded.items():
                if name not in rollout.recorded and self._gpu is not None:
                    self._gpu.record(name, value.dtype)
                elif name not in rollout.recorded:
                    complete = torch.zeros(rollout.T, rollout.B, dtype=value.dtype, device=self.device)
                    # Another thread may store this array at the same time, but `setdefault` is atomic.
                    rollout.recorded.setdefault(name, complete)
                self._inference.store(rollout.recorded[name][t, b], value)

    def can_go_ahead(self, agent: Agent) -> bool:
        """Return whether a rollout may begin before the previous one has ended: only on a CPU, and without a recurrent
        state."""
        return not agent.state_size and self._gpu is None

    def finish(self, buffer: int) -> Rollout:
        """Complete the rollout in a buffer, and return it on the device."""
        rollout = self.rollouts[buffer]
        self._write_reward(buffer, rollout.T - 1, slice(None))
        rollout.next_state = self._copied_state(rollout.next_state)
        is_unseen, self._is_unseen[buffer] = self._is_unseen[buffer], False
        if not is_unseen:
            if self._cores:
                pin(self._cores)
            torch.set_num_threads(self._learner_threads)
        if self._gpu is not None:
            self._gpu.finish(buffer, is_unseen)
        return rollout

    def _copied_state(self, memory: torch.Tensor | None) -> torch.Tensor | None:
        """Copy the recurrent state. On a GPU, the previous copy, `memory`, is overwritten, because captured updates
        read the state at its address."""
        if self.state is None:
            return None
        if self._gpu is None or memory is None:
            return self.state.clone()
        return memory.copy_(self.state)

    def forget(self) -> None:
        """Set the recurrent state to zero in place, because captured inference reads it at its address."""
        if self.state is not None:
            self.state.zero_()

    def close(self) -> None:
        if self._gpu is not None:
            self._gpu.close()
