"""Inference on a GPU as one CUDA graph for each group of environments: one launch a step, not one an operation."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from accel_rl.agents.base import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.samplers.inference import capturable
from accel_rl.system.hardware import say_once

Act = Callable[[Agent, Tensor, Tensor, slice], tuple[Tensor, dict[str, Tensor]]]
"""(agent, obs, uniform, environments) -> (action, what to record)."""
Replay = Callable[[], object]

WARM_UP = 3  # calls on the capture's stream: libraries set themselves up in the first ones


class CudaGraphs:
    """Turns the GPU work of a function into a graph. All graphs share one pool for intermediate results: they are
    replayed one after the other, and their outputs lie in memory that was there before."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool = device, torch.cuda.graph_pool_handle()

    def __call__(self, step: Callable[[], None]) -> Replay:
        """A function that replays `step`, which is called a few times first and must do the same each time.

        Raises RuntimeError if `step` waits for the GPU or reads from the host.
        """
        with torch.cuda.device(self._device):
            side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            # Other threads, such as a learner's, may use the GPU meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, stream=side, capture_error_mode="thread_local"):
                step()
        return graph.replay


class _Capture(NamedTuple):
    """t [1]: the step that `replay` acts at. action [N]: what it chooses."""

    t: Tensor
    action: Tensor
    replay: Replay


class CudaGraphInference:
    """For each buffer and group of environments, the GPU work of one step, from the group's frames to its actions.

    The second step that a group is served is captured as a CUDA graph; later steps replay it. The step's number is a
    tensor of one element on the GPU, and the uniform numbers that actions are drawn by lie in memory that stays. What
    is not captured is noted once, with the reason (see `CapturedInference`).
    """

    reads_frames = False

    def __init__(
        self,
        groups: Sequence[slice],
        host: list[Rollout],
        rollouts: list[Rollout],
        act: Act,
        enabled: bool = True,
        note: Callable[[str], None] = lambda line: None,
        capture: Callable[[Callable[[], None]], Replay] | None = None,
    ):
        """rollouts: on the device, of the same cells as those on the host. capture: CudaGraphs, if None."""
        self._groups, self._host, self._rollouts, self._act = groups, host, rollouts, act
        device = rollouts[0].frames.device
        self._capture = CudaGraphs(device) if capture is None else capture
        self._eligibility = capturable.Eligibility("" if enabled else "--sampler.no-capture", note)
        self._uniform = [torch.zeros(r.T, r.B, device=device) for r in rollouts]
        self._captures: dict[tuple[int, int], _Capture] = {}
        self._agent: Agent | None = None
        self._served: set[tuple[int, int]] = set()  # (buffer, group), since the key changed

    def begin(self, buffer: int, rollout: Rollout, uniform: Tensor) -> None:
        """Start that rollout. uniform [T, B]: the numbers that its actions are drawn by."""
        self._uniform[buffer].copy_(uniform)

    def use(self, agent: Agent, settings: Hashable) -> None:
        """Serve that agent from now on. settings: what else its actions depend on."""
        if self._eligibility.use(agent, settings):
            self._captures.clear()
            self._served.clear()
        self._agent = agent

    def replay(self, buffer: int, t: int, group: int) -> bool:
        """Act for the group at step t of the buffer's rollout, if its act was captured."""
        capture = self._captures.get((buffer, group))
        if capture is None:
            return False
        capture.t.fill_(t)
        capture.replay()
        # this copy waits for the GPU: the actions are needed now
        self._host[buffer].action[t, self._groups[group]].copy_(capture.action)
        return True

    @contextmanager
    def capturing(self, buffer: int, t: int, group: int) -> Iterator[None]:
        """While the agent acts for the group at step t; captures a graph after the group's second step."""
        yield
        if self._eligibility.key is None or (buffer, group) not in self._served:
            self._served.add((buffer, group))
            return
        try:
            self._captures[buffer, group] = self._captured(buffer, t, group)
        except RuntimeError as e:
            self._captures.clear()
            why = f"acting is not captured as a CUDA graph, the agent is called at every step: {str(e).strip()}"
            self._eligibility.fail(why)
            say_once(why)

    def _captured(self, buffer: int, t: int, group: int) -> _Capture:
        agent, rollout, uniform, b = self._agent, self._rollouts[buffer], self._uniform[buffer], self._groups[group]
        assert agent is not None
        envs = torch.arange(b.start, b.stop, device=uniform.device)
        now = torch.full((1,), t, device=uniform.device)
        chosen = torch.empty_like(rollout.action[0, b])

        @torch.no_grad()
        def step() -> None:
            at = now.expand(len(envs))
            action, recorded = self._act(agent, rollout.observation(at, envs), uniform[at, envs], b)
            chosen.copy_(action)
            for name, value in recorded.items():
                rollout.recorded[name].index_put_((at, envs), value)

        return _Capture(now, chosen, self._capture(step))
