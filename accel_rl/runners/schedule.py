"""The order in which sampling and learning take turns."""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from accel_rl.runners.learner import Learner
from accel_rl.runners.ranks.context import SINGLE_RANK, RankContext
from accel_rl.samplers.sampler import Sampler


class Schedule(Protocol):
    """`Lockstep` or `Concurrent`."""

    interrupted: Callable[[], bool]
    """Asked while a cycle lasts; it ends early where the answer is yes."""
    sampled: Callable[[int], None]
    """Told how many env steps of a cycle have been sampled."""

    @property
    def pending(self) -> bool:
        """Whether the last cycle ended early: its steps are not counted yet, and `cycle` goes on with it."""

    def cycle(self, remaining: int) -> tuple[int, list[dict[str, Tensor]]]:
        """Sample and learn; `remaining`: env steps that the run still wants -> (env steps taken, the metrics of each
        update)."""

    def state_dict(self) -> dict[str, Any] | None: ...

    def load_state_dict(self, state: dict[str, Any] | None) -> None: ...

    def close(self) -> None: ...


class Lockstep:
    """Sample a rollout, learn from it, sample the next: neither ever runs beside the other.

    The first learner's agent plays. A second one, if there is one, learns after it from the same rollouts.
    """

    interrupted: Callable[[], bool] = staticmethod(lambda: False)
    sampled: Callable[[int], None] = staticmethod(lambda env_steps: None)
    pending = False

    def __init__(
        self, sampler: Sampler, learner: Learner, secondary: Learner | None = None, context: RankContext = SINGLE_RANK
    ):
        self.sampler, self.learners, self.context = sampler, with_names(learner, secondary), context

    def cycle(self, remaining: int = 0) -> tuple[int, list[dict[str, Tensor]]]:
        """One rollout and its updates."""
        first = self.learners[0][1]
        rollout = self.sampler.collect(self.context.agent(first.algo.agent, first.gradient_sync))
        metrics = []
        for prefix, learner in self.learners:
            learner.algo.ingest(rollout)
            for batch in learner.algo.batches():
                metrics.append(named(prefix, learner.update(batch)))
                self.sampler.check()
        return int(rollout.valid.sum()), metrics

    def state_dict(self) -> None:
        """Between cycles there is nothing to keep."""

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        assert state is None

    def close(self) -> None:
        pass


def with_names(learner: Learner, secondary: Learner | None) -> list[tuple[str, Learner]]:
    """(what stands before the names of its metrics, learner)."""
    return [("", learner)] if secondary is None else [("", learner), ("secondary/", secondary)]


def named(prefix: str, metrics: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in metrics.items()} if prefix else metrics
