"""A schedule determines when a rank samples and when it learns."""

from collections.abc import Callable
from typing import Any, Protocol

from accel_rl.algos.algorithm import advance
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.runners.learner import Learner
from accel_rl.runners.ranks.context import Exchange
from accel_rl.samplers.rollout_sampler import RolloutSampler


class Schedule(Protocol):
    """The schedules are `Lockstep`, `Concurrent` and users' classes. A user's class, `--schedule module:Class`, is
    built like `Lockstep`."""

    interrupted: Callable[[], bool]
    """`interrupted` is a function that is called during a cycle; when the function returns True, the cycle ends
    early."""
    sampled: Callable[[int], None]
    """`sampled` is a function that is called with the number of env steps that the cycle has sampled."""

    @property
    def pending(self) -> bool:
        """Return whether the last cycle ended early. The steps of an unfinished cycle are not counted yet, and the next
        call of `cycle` continues the cycle."""

    def cycle(self, remaining: int) -> tuple[int, list[UpdateMetrics]]:
        """Sample and learn, and return the number of env steps and the updates' metrics. `remaining` is the number of
        env steps until the end of the run."""

    def state_dict(self) -> dict[str, Any] | None: ...

    def load_state_dict(self, state: dict[str, Any] | None) -> None: ...

    def close(self) -> None: ...


class Lockstep:
    """The lockstep schedule samples a rollout, learns from it, and samples the next rollout. The first learner's agent
    selects all actions. A second learner learns from the same rollouts, after the first learner."""

    interrupted: Callable[[], bool] = staticmethod(lambda: False)
    sampled: Callable[[int], None] = staticmethod(lambda env_steps: None)
    pending = False

    def __init__(
        self,
        sampler: RolloutSampler,
        learner: Learner,
        secondary: Learner | None = None,
        exchange: Exchange | None = None,
    ):
        """`exchange` connects the learner to the learners of other ranks, and is None for a single rank."""
        self.sampler, self.learners = sampler, with_names(learner, secondary)
        self.exchange = exchange or Exchange()

    def cycle(self, remaining: int = 0) -> tuple[int, list[UpdateMetrics]]:
        """Sample one rollout, and make the rollout's updates."""
        first = self.learners[0][1]
        rollout = self.sampler.collect(self.exchange.agent(first.algo.agent, first.gradient_sync))
        metrics: list[UpdateMetrics] = []
        for prefix, learner in self.learners:
            advance(learner.algo, rollout.env_steps)
            learner.algo.ingest(rollout)
            metrics += [m.prefixed(prefix) for m in learner.learn(self.sampler.check)]
        return rollout.env_steps, metrics

    def state_dict(self) -> None:
        """Return None, because the lockstep schedule has no state between cycles."""

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        assert state is None

    def close(self) -> None:
        pass


def with_names(learner: Learner, secondary: Learner | None) -> list[tuple[str, Learner]]:
    """Pair each learner with the prefix of its metrics."""
    return [("", learner)] if secondary is None else [("", learner), ("secondary/", secondary)]
