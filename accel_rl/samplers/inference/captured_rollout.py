"""Whole rollouts on a GPU as CUDA graphs: T steps of inference and environments with one launch."""

from collections.abc import Callable, Hashable
from typing import Any

import torch

from accel_rl.agents.base import Agent
from accel_rl.kernels.cuda_graph import WARM_UP, CudaGraphs, Replay
from accel_rl.samplers.inference import capturable
from accel_rl.system.hardware import say_once


class CapturedRollouts:
    """Plays rollouts: the first ones from Python, later ones by replaying a graph of the same buffer.

    What is not captured is noted once, with the reason (see `CapturedInference`).
    """

    def __init__(self, device: torch.device, enabled: bool, note: Callable[[str], None]):
        self._graphs = CudaGraphs(device)
        self._eligibility = capturable.Eligibility("" if enabled else "--sampler.no-capture", note)
        self._replays: dict[int, Replay] = {}  # by buffer
        self._played: dict[int, int] = {}  # by buffer: rollouts since the key changed

    def play(self, agent: Agent, buffer: int, settings: Hashable, play: Callable[[], Any]) -> None:
        """Do the GPU work of `play`, which plays the buffer's rollout with the agent. settings: what else it depends on."""
        if self._eligibility.use(agent, settings):
            self._replays.clear()
            self._played.clear()
        if getattr(agent, "refresh", None) is not None:
            self._eligibility.refuse("asynchronous ranks pull parameters within a rollout")
            play()
            return
        if self._eligibility.key is None:
            play()
            return
        if buffer not in self._replays and self._played.get(buffer, 0) >= WARM_UP:
            self._capture(buffer, play)
        if buffer in self._replays:
            self._replays[buffer]()
            return
        self._played[buffer] = self._played.get(buffer, 0) + 1
        with self._graphs.warming_up():
            play()

    def _capture(self, buffer: int, play: Callable[[], Any]) -> None:
        try:
            self._replays[buffer] = self._graphs.capture(play)
        except RuntimeError as e:
            self._replays.clear()
            why = " ".join(str(e).split())[:300]
            why = f"rollouts are not captured as CUDA graphs, Python runs at every step: {why}"
            self._eligibility.fail(why)
            say_once(why)
            play()  # nothing has run: a failed capture has no effect
