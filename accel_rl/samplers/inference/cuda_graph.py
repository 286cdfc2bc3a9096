"""Acting as one CUDA graph for each group of environments: the GPU is asked once a step, not once an operation."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from accel_rl.agents.base import Agent, acts_by
from accel_rl.data.rollout import Rollout
from accel_rl.system.hardware import say_once

Act = Callable[[Agent, Tensor, Tensor, slice], tuple[Tensor, dict[str, Tensor]]]
"""(agent, obs, uniform, environments) -> (action, what to record)."""
Replay = Callable[[], object]

WARM_UP = 3  # times, on the stream of the capture: libraries set themselves up at first


class CudaGraphs:
    """Turns what a function of no arguments does on a GPU into one graph. All share their memory for intermediate
    results: they are replayed one after the other, and what lasts was there before."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool = device, torch.cuda.graph_pool_handle()

    def __call__(self, step: Callable[[], None]) -> Replay:
        """What does it again. `step` is called a few times, so it has to do the same each time. RuntimeError where it
        waits for the GPU or takes something from the host."""
        with torch.cuda.device(self._device):
            side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            # Others' threads, a learner's say, may go on using the GPU meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, stream=side, capture_error_mode="thread_local"):
                step()
        return graph.replay


class _Graph(NamedTuple):
    """t [1]: the step that `replay` acts at. action [N]: what it chooses."""

    t: Tensor
    action: Tensor
    replay: Replay


class CudaGraphInference:
    """For each buffer and group of environments, on a GPU: what happens between the group's frames there and its
    actions there, captured once and replayed at the other steps. The step's number is an array of one on the GPU; the
    numbers that actions are drawn by lie in memory that stays.

    An agent that has more to do than compute (`Agent.capturable`), or whose act cannot be captured, is called at every
    step; the latter is said once.
    """

    def __init__(
        self,
        groups: Sequence[slice],
        host: list[Rollout],
        rollouts: list[Rollout],
        act: Act,
        capture: Callable[[Callable[[], None]], Replay] | None = None,
    ):
        """rollouts: the device's, of the same cells as the host's. capture: CudaGraphs, if None."""
        self._groups, self._host, self._rollouts, self._act = groups, host, rollouts, act
        device = rollouts[0].frames.device
        self._capture = CudaGraphs(device) if capture is None else capture
        self._uniform = [torch.zeros(r.T, r.B, device=device) for r in rollouts]
        self._graphs: dict[tuple[int, int], _Graph] = {}
        self._agent: Agent | None = None  # whose acts are captured
        self._of: Hashable | None = None
        self._refused: Hashable | None = None  # could not be captured
        self._served: set[tuple[int, int]] = set()  # (buffer, group), since the agent is another

    def begin(self, buffer: int, rollout: Rollout, uniform: Tensor) -> None:
        """That rollout follows."""
        self._uniform[buffer].copy_(uniform)

    def play(self, agent: Agent, settings: Hashable) -> None:
        """That agent plays the rollouts that follow. settings: whatever else its actions depend on."""
        how = acts_by(agent, settings)
        if how == self._refused:
            how = None
        if how != self._of:
            self._of = how
            self._graphs.clear()
            self._served.clear()
        self._agent = agent

    def again(self, buffer: int, t: int, group: int) -> bool:
        """Act for the group at step t of the buffer's rollout, if that has been captured."""
        graph = self._graphs.get((buffer, group))
        if graph is None:
            return False
        graph.t.fill_(t)
        graph.replay()
        self._host[buffer].action[t, self._groups[group]].copy_(graph.action)  # needed now: waits for the GPU
        return True

    @contextmanager
    def recording(self, buffer: int, t: int, group: int) -> Iterator[None]:
        """While the agent acts for the group at step t; the second time, its graph is captured after it."""
        yield
        if self._of is None or (buffer, group) not in self._served:
            self._served.add((buffer, group))
            return
        try:
            self._graphs[buffer, group] = self._captured(buffer, t, group)
        except RuntimeError as e:
            self._of, self._refused = None, self._of
            self._graphs.clear()
            say_once(f"acting is not captured as a CUDA graph, the agent is called at every step: {str(e).strip()}")

    def _captured(self, buffer: int, t: int, group: int) -> _Graph:
        agent, rollout, uniform, b = self._agent, self._rollouts[buffer], self._uniform[buffer], self._groups[group]
        assert agent is not None
        cells = torch.arange(b.start, b.stop, device=uniform.device)
        now = torch.full((1,), t, device=uniform.device)
        chosen = torch.empty_like(rollout.action[0, b])

        @torch.no_grad()
        def step() -> None:
            at = now.expand(len(cells))
            action, recorded = self._act(agent, rollout.observation(at, cells), uniform[at, cells], b)
            chosen.copy_(action)
            for name, value in recorded.items():
                rollout.recorded[name].index_put_((at, cells), value)

        return _Graph(now, chosen, self._capture(step))
