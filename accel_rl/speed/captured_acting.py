"""Samplers replay captured inference instead of calling the agent at every step."""

from collections import Counter
from collections.abc import Hashable, Sequence

import torch

from accel_rl.agents.agent import Agent
from accel_rl.models.precision import Precision
from accel_rl.samplers.inference.device_rollouts import DeviceRollouts
from accel_rl.samplers.inference.inference import Acceleration, Play
from accel_rl.samplers.inference.pulling_agent import PullingAgent
from accel_rl.speed import capturable
from accel_rl.speed.captured_inference import CapturedInference
from accel_rl.speed.cuda_graph import WARM_UP, CudaGraphs, Replay
from accel_rl.speed.cuda_graph_inference import CudaGraphInference
from accel_rl.text.notes import say_once


class CapturedRollouts:
    """In each buffer, the first rollouts are launched from Python, and later rollouts replay a CUDA graph. If an agent
    is not captured, the reason is logged once."""

    def __init__(self, device: torch.device, enabled: bool):
        self._graphs = CudaGraphs(device)
        self._eligibility = capturable.Eligibility("" if enabled else "--sampler.no-capture")
        self._enabled = enabled
        # Maps (whether all actions are drawn before the rollout, buffer) to the captured rollout.
        self._replays: dict[tuple[bool, int], Replay] = {}
        self._played: Counter[tuple[bool, int]] = Counter()  # numbers of rollouts launched from Python

    def play(self, agent: Agent | None, buffer: int, settings: Hashable, play: Play) -> None:
        """Launch or replay the operations `play` of one rollout. `agent` is None if all actions are drawn before the
        rollout. `settings` are other values on which the rollout depends. Groups of environments run in parallel only
        inside a CUDA graph."""
        key = agent is None, buffer
        if not self._may_capture(agent, settings):
            play(False)
        elif key not in self._replays and self._played[key] < WARM_UP:
            self._played[key] += 1
            with self._graphs.warming_up():
                play(False)
        elif key in self._replays or self._captures(key, play):
            self._replays[key]()
        else:
            play(False)

    def _may_capture(self, agent: Agent | None, settings: Hashable) -> bool:
        if agent is None:
            return self._enabled
        if isinstance(agent, PullingAgent):
            self._eligibility.refuse("asynchronous ranks pull parameters within a rollout")
            return False
        if self._eligibility.use(agent, settings):
            for known in (self._replays, self._played):
                for key in [key for key in known if not key[0]]:
                    del known[key]
        return self._eligibility.key is not None

    def _captures(self, key: tuple[bool, int], play: Play) -> bool:
        """Capture a rollout, and return whether the capture succeeded. If the capture failed, rollouts are launched
        from Python."""
        try:
            self._replays[key] = self._graphs.capture(lambda: play(True))
            return True
        except RuntimeError as e:
            why = " ".join(str(e).split())[:300]
            why = f"rollouts are not captured as CUDA graphs, Python runs at every step: {why}"
            self._eligibility.fail(why)
            self._enabled = False
            say_once(why)
            return False


class CapturedActing(Acceleration):
    """Creates the captures of inference: lists of kernel calls on a CPU, and CUDA graphs on a GPU."""

    def __init__(self, enabled: bool = True):
        """`enabled` is false with --sampler.no-capture."""
        self._enabled = enabled

    def on_cpu(self, groups: Sequence[slice]) -> CapturedInference:
        return CapturedInference(groups, self._enabled)

    def on_gpu(self, groups: Sequence[slice], gpu: DeviceRollouts, precision: Precision) -> CudaGraphInference:
        return CudaGraphInference(groups, gpu, precision, self._enabled)

    def player(self, device: torch.device) -> CapturedRollouts:
        return CapturedRollouts(device, self._enabled)
