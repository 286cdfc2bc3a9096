"""A schedule determines when a rank samples and when it learns."""

import time
from abc import ABC, abstractmethod
from typing import Any

from accel_rl.algos.algorithm import advance
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.training.context import Exchange
from accel_rl.training.learner import Learner


class Schedule(ABC):
    """Base class of schedules. A user's class, `--schedule module:Class`, is called with the arguments of `Lockstep`. A
    schedule without state between cycles defines only `cycle`."""

    acting_age = 0
    """Number of updates made between the copy of the parameters that selected the newest rollout's actions and the end
    of this rollout."""

    @property
    def pending(self) -> bool:
        """Whether the last cycle ended early. The next call of `cycle` then continues the interrupted cycle."""
        return False

    @abstractmethod
    def cycle(self, remaining: int = 0) -> tuple[int, list[UpdateMetrics]]:
        """Run one cycle. Return the cycle's number of env steps and the metrics of its updates. `remaining` is the
        number of env steps until the end of the run."""

    def state_dict(self) -> dict[str, Any] | None:
        return None

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        assert state is None

    def close(self) -> None:  # noqa: B027  optional
        """Free threads and memory."""


class Lockstep(Schedule):
    """Sample a rollout, learn from it, and sample the next rollout. The first learner's agent selects all actions. A
    second learner learns from the same rollouts, after the first learner."""

    def __init__(
        self,
        sampler: RolloutSampler,
        learner: Learner,
        secondary: Learner | None = None,
        exchange: Exchange | None = None,
    ):
        """`exchange` connects the learner to the learners of other ranks, or is None in a run of a single rank."""
        self.sampler, self.learners = sampler, with_names(learner, secondary)
        self.exchange = exchange or Exchange()
        self.sampling_s = 0.0
        """Seconds of sampling in this process."""

    def cycle(self, remaining: int = 0) -> tuple[int, list[UpdateMetrics]]:
        first = self.learners[0][1]
        began, updates = time.monotonic(), self.exchange.updates
        rollout = self.sampler.collect(self.exchange.agent(first.algo.agent, first.gradient_sync))
        self.sampling_s += time.monotonic() - began
        self.acting_age = self.exchange.updates - updates
        metrics: list[UpdateMetrics] = []
        for prefix, learner in self.learners:
            advance(learner.algo, rollout)
            learner.ingest(rollout)
            metrics += [m.prefixed(prefix) for m in learner.learn(self.sampler.check)]
        return rollout.env_steps, metrics


def with_names(learner: Learner, secondary: Learner | None) -> list[tuple[str, Learner]]:
    """(prefix of the metrics' names, learner) of each learner."""
    return [("", learner)] if secondary is None else [("", learner), ("secondary/", secondary)]
