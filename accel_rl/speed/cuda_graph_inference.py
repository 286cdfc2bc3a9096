"""On a GPU, an inference step of a group of environments is captured as one CUDA graph, which needs one launch per
step."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import RnnState
from accel_rl.kernels.frames import gather_stacks
from accel_rl.models.precision import Precision, autocast_for
from accel_rl.samplers.inference.device_rollouts import DeviceRollouts
from accel_rl.samplers.inference.inference import Inference
from accel_rl.speed import capturable
from accel_rl.speed.cuda_graph import WARM_UP, CudaGraphs, Replay
from accel_rl.text.notes import say_once


class _Capture(NamedTuple):
    """`replay` computes the actions `action` [N] of the step in `row` [1]."""

    row: Tensor
    action: Tensor
    replay: Replay


class CudaGraphInference(Inference):
    """Captures, for each group of environments, the GPU operations from the group's frames to its actions.

    After a group's first steps, a step is captured as a CUDA graph, and later steps in all buffers replay the graph. A
    number in GPU memory determines the row and the buffer into which a replay writes. If an agent is not captured, the
    reason is logged once.
    """

    def __init__(self, groups: Sequence[slice], gpu: DeviceRollouts, precision: Precision, enabled: bool = True):
        self._groups = groups
        self._gpu = gpu
        self._precision = precision
        self._graphs = CudaGraphs(gpu.frames.device)
        self._eligibility = capturable.Eligibility("" if enabled else "--sampler.no-capture")
        self._captures: dict[int, _Capture] = {}
        self._agent: Agent | None = None
        self._state: Tensor | None = None
        # {group: number of steps since `Eligibility.key` changed}
        self._served: dict[int, int] = {}

    def use(self, agent: Agent, settings: Hashable, state: Tensor | None = None) -> None:
        """Prepare for inference of `agent`. `settings` are other values on which the agent's actions depend. `state`
        [B, Z] is the agent's recurrent state, or None."""
        if self._eligibility.use(agent, (settings, None if state is None else state.data_ptr())):
            self._captures.clear()
            self._served.clear()
        self._agent, self._state = agent, state

    def replay(self, buffer: int, t: int, group: int) -> bool:
        capture = self._captures.get(group)
        if capture is None and self._served.get(group, 0) >= WARM_UP and self._eligibility.key is not None:
            capture = self._capture(group)
        if capture is None:
            return False
        capture.row.fill_(buffer * self._gpu.rows + t)
        capture.replay()
        self._gpu.send_actions(buffer, t, group, capture.action)
        return True

    @contextmanager
    def capturing(self, buffer: int, t: int, group: int) -> Iterator[None]:
        """A context in which the agent is called on the CUDA stream of later captures."""
        if self._eligibility.key is None:
            yield
            return
        self._served[group] = self._served.get(group, 0) + 1
        with self._graphs.warming_up():
            yield

    def _capture(self, group: int) -> _Capture | None:
        try:
            self._captures[group] = self._captured(group)
        except RuntimeError as e:
            self._captures.clear()
            why = " ".join(str(e).split())[:300]
            why = f"acting is not captured as a CUDA graph, the agent is called at every step: {why}"
            self._eligibility.fail(why)
            say_once(why)
            return None
        return self._captures[group]

    def _captured(self, group: int) -> _Capture:
        agent, gpu, state = self._agent, self._gpu, self._state
        b = self._groups[group]
        assert agent is not None
        envs = torch.arange(b.start, b.stop, device=gpu.frames.device)
        row = torch.zeros(1, dtype=torch.int64, device=gpu.frames.device)
        chosen = torch.empty_like(gpu.rollouts[0].action[0, b])

        @torch.no_grad()
        def step() -> None:
            rows = row.expand(len(envs))
            age = gpu.age[rows, envs]
            memory = None if state is None else RnnState(state[b], (age == 0).unsqueeze(0))
            obs = gather_stacks(gpu.frames, rows, envs, age, gpu.stack)
            with autocast_for(self._precision, gpu.frames.device):
                action, recorded = agent.act(obs, gpu.random[rows, envs], memory, b)
            chosen.copy_(action)
            for name, value in recorded.items():
                gpu.recorded[name].index_put_((rows, envs), value)

        return _Capture(row, chosen, self._graphs.capture(step))
