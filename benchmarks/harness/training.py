"""Measures the speed of a training run, and of its updates."""

from pathlib import Path

from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.settings.train import TrainConfig
from accel_rl.speed.cuda_graph import WARM_UP
from benchmarks.harness.measured_training import MeasuredTraining
from benchmarks.harness.sampling import declare_parts


class Training(MeasuredTraining):
    """A measured training run whose updates can also be measured. Q-learning makes `at_once` updates per call of
    `update`."""

    def __init__(self, given: TrainConfig, folder: Path, warm_cycles: int = 0, at_once: int = 1):
        self.at_once, self.updates_per_s = at_once, 0.0
        super().__init__(given, folder, warm_cycles)

    def _start(self) -> None:
        declare_parts(self.device, self.sampler)
        super()._start()

    def training(self, seconds: float) -> float:
        """Measure env steps/s of sampling and learning, and set `updates_per_s`."""
        before, steps = self.learner.updates, 0

        def cycle() -> int:
            nonlocal steps
            steps += (n := self._cycle())
            return n

        rates = self._measure(cycle, seconds)
        self.updates_per_s = (self.learner.updates - before) * rates / max(1, steps)
        return rates

    def updates(self, seconds: float) -> float:
        """Measure updates/s without sampling."""
        if not isinstance(self.learner.algo, ReplayAlgorithm):
            self.learner.ingest(self.rollout)
        return self._measure(self.update, seconds, warm_up=WARM_UP + 1)

    def update(self) -> int:
        """Make the updates of one training cycle, or `at_once` updates of Q-learning. Returns the number of updates."""
        algo, before = self.learner.algo, self.learner.updates
        if isinstance(algo, ReplayAlgorithm):
            algo.budget.set(self.at_once)
        self.learner.learn()
        return self.learner.updates - before
