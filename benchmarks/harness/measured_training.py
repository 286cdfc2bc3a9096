"""Measures the speed of a training run as a whole, of its sampling without learning, and of its learning without
sampling."""

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from accel_rl.machine.devices import Device
from accel_rl.models.precision import multiply_in
from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.speed.cuda_graph import WARM_UP
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.concurrent import Concurrent

FOREVER = 10**9
"""A number of env steps that no measurement reaches."""
AHEAD = 2
"""Maximum number of calls whose GPU work is queued at a time, so that a measurement ends soon after its last call."""


def rate(work: Callable[[], float], seconds: float, device: str = "cpu") -> float:
    """Call `work` again and again for `seconds` seconds, at least once. Return the sum of the results per second."""
    waiting, gpu = deque[Any](), Device(device)
    synchronize(device)
    n, begin = 0.0, time.perf_counter()
    while True:
        n += work()
        if gpu.queues_work:
            event = gpu.runtime.Event()
            event.record()
            waiting.append(event)
            if len(waiting) > AHEAD:
                waiting.popleft().synchronize()
        if time.perf_counter() - begin >= seconds:
            break
    synchronize(device)
    return n / (time.perf_counter() - begin)


def synchronize(device: str) -> None:
    """Wait until a GPU has completed all queued operations."""
    if Device(device).queues_work:
        Device(device).runtime.synchronize()


def _affinity() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()


def _run_on(cores: set[int]) -> None:
    if cores:
        os.sched_setaffinity(0, cores)


class MeasuredTraining:
    """A run's trainer after a warm-up, in which random play fills the replay, and updates on a GPU are captured.

    Several trainers can be measured in turns, because each measurement sets the CPU affinity, torch's threads and the
    precision. `warm_cycles` is the number of training cycles in the warm-up after the first update.
    """

    def __init__(self, given: TrainConfig, folder: Path, warm_cycles: int = 0):
        self.config = config = resolve(given)
        self._cores = _affinity()
        run_folder = RunFolder.create(folder, config)
        self._events = run_folder.path / "events.log"
        self.plan = RankPlan.resolve(config)
        self.device = self.plan.device
        try:
            self.trainer = build_trainer(config, self.plan, run_folder)
        finally:
            self._own_cores = _affinity()
            _run_on(self._cores)
        self.learner = self.trainer.learner
        self.schedule = self.trainer.schedule
        self.sampler = self.trainer.sampler
        try:
            self._start()
            while not self.learner.updates:
                self._cycle()
            for _ in range(warm_cycles):
                self._cycle()
            self.rollout = self.sampler.collect(self.agent)
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self.sampler.start()

    @property
    def agent(self) -> Any:
        return self.schedule.behaviour if isinstance(self.schedule, Concurrent) else self.learner.algo.agent

    def _cycle(self) -> int:
        return self.schedule.cycle(FOREVER)[0]

    def _measure(
        self, work: Callable[[], float], seconds: float, warm_up: int = 0, threads: int | None = None
    ) -> float:
        _run_on(self._own_cores)
        multiply_in(self.config.precision, self.device)
        torch.set_num_threads(threads or self.plan.placement.torch_threads)
        try:
            for _ in range(warm_up):
                work()
            return rate(work, seconds, self.device)
        finally:
            _run_on(self._cores)

    def training(self, seconds: float) -> float:
        """Measure env steps/s of sampling and learning."""
        return self._measure(self._cycle, seconds)

    def sampling(self, seconds: float, agent: Any = None) -> float:
        """Measure env steps/s of sampling without learning, by `agent` or by the run's agent."""
        return self._measure(lambda: self.sampler.collect(agent or self.agent).env_steps, seconds)

    def learning(self, seconds: float, threads: int | None = None) -> float:
        """Measure the env steps/s to which the learner could keep up, without sampling: every training cycle uses the
        same rollout. By default, torch uses as many threads as in the run."""
        schedule: Any = self.schedule
        one_rollout = SimpleNamespace(collect=lambda agent: self.rollout, check=lambda: None)
        real, schedule.sampler = schedule.sampler, one_rollout
        try:
            return self._measure(self._cycle, seconds, WARM_UP if self.device.queues_work else 0, threads)
        finally:
            schedule.sampler = real

    def notes(self) -> list[str]:
        """Return the lines that the run has logged, such as the reason why updates are not captured."""
        if not self._events.exists():
            return []
        lines = (line[20:] for line in self._events.read_text().splitlines())
        return list(dict.fromkeys(line for line in lines if "--no-capture-updates" not in line))

    def close(self) -> None:
        self.schedule.close()
        self.learner.close()
        self.sampler.close()
