"""This module measures the speed of a training run: as a whole, of sampling, of learning, and of updates."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.config.resolved import resolve
from accel_rl.config.train import TrainConfig
from accel_rl.models.precision import multiply_in
from accel_rl.runners.concurrent import Concurrent
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.trainer import Trainer
from accel_rl.speed.cuda_graph import WARM_UP
from benchmarks.harness.sampling import declare_parts
from benchmarks.harness.turns import rate

FOREVER = 10**9
"""Number of env steps of a run that is longer than any measurement."""


class Training:
    """`Training` is a run's trainer after warm-up: the replay is filled by random play, and updates on a GPU are
    captured.

    Several trainers can be measured in turns, because each measurement sets the trainer's affinity, threads and
    precision. `warm_cycles` is the number of cycles after the first update. `at_once` is the number of Q-learning
    updates in one call of `updates`.
    """

    def __init__(self, given: TrainConfig, folder: Path, warm_cycles: int = 0, at_once: int = 1):
        self.config = config = resolve(given)
        self.at_once, self.updates_per_s = at_once, 0.0
        self._cores = os.sched_getaffinity(0)
        run_folder = RunFolder.create(folder, config)
        self._events = run_folder.path / "events.log"
        plan = RankPlan.resolve(config)
        self.device = plan.device
        try:
            self.trainer = Trainer(config, plan, run_folder)
        finally:
            self._own_cores = os.sched_getaffinity(0)
            os.sched_setaffinity(0, self._cores)
        self.learner, self.schedule, self.sampler = self.trainer.learner, self.trainer.schedule, self.trainer.sampler
        declare_parts(self.device, self.sampler)
        self.sampler.start()
        while not self.learner.updates:
            self._cycle()
        for _ in range(warm_cycles):
            self._cycle()
        self.rollout = self.sampler.collect(self.agent)

    @property
    def agent(self) -> Any:
        return self.schedule.behaviour if isinstance(self.schedule, Concurrent) else self.learner.algo.agent

    def _cycle(self) -> int:
        return self.schedule.cycle(FOREVER)[0]

    def _measure(self, work: Callable[[], float], seconds: float, warm_up: int = 0) -> float:
        os.sched_setaffinity(0, self._own_cores)
        multiply_in(self.config.precision, self.device)
        torch.set_num_threads(self.trainer.plan.placement.torch_threads)
        try:
            for _ in range(warm_up):
                work()
            return rate(work, seconds, self.device)
        finally:
            os.sched_setaffinity(0, self._cores)

    def training(self, seconds: float) -> float:
        """Measure env steps/s of sampling and learning, and set `updates_per_s`."""
        before, steps = self.learner.updates, 0

        def cycle() -> int:
            nonlocal steps
            steps += (n := self._cycle())
            return n

        found = self._measure(cycle, seconds)
        self.updates_per_s = (self.learner.updates - before) * found / max(1, steps)
        return found

    def sampling(self, seconds: float) -> float:
        """Measure env steps/s of sampling without learning."""
        return self._measure(lambda: self.sampler.collect(self.agent).env_steps, seconds)

    def learning(self, seconds: float) -> float:
        """Measure the env steps/s that learning without sampling can process. Every cycle of the measurement learns
        from the same rollout."""
        schedule: Any = self.schedule
        one_rollout = SimpleNamespace(collect=lambda agent: self.rollout, check=lambda: None)
        real, schedule.sampler = schedule.sampler, one_rollout
        try:
            return self._measure(self._cycle, seconds, warm_up=WARM_UP if self.device.queues_work else 0)
        finally:
            schedule.sampler = real

    def updates(self, seconds: float) -> float:
        """Measure updates/s without sampling."""
        algo = self.learner.algo
        if not isinstance(algo, ReplayAlgorithm):
            algo.ingest(self.rollout)
        return self._measure(self.update, seconds, warm_up=WARM_UP + 1)

    def update(self) -> int:
        """Make the updates of one learning phase, or `at_once` updates of Q-learning, and return their number."""
        algo = self.learner.algo
        if isinstance(algo, ReplayAlgorithm):
            algo.budget.set(self.at_once)
        return len(self.learner.learn())

    def notes(self) -> list[str]:
        """Return the events of the run, such as the reasons why updates are not captured."""
        if not self._events.exists():
            return []
        lines = (line[20:] for line in self._events.read_text().splitlines())
        return list(dict.fromkeys(line for line in lines if "--no-capture-updates" not in line))

    def close(self) -> None:
        self.schedule.close()
        self.learner.close()
        self.sampler.close()
