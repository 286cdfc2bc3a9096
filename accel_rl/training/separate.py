"""The schedules of ranks that only sample or only learn, and share a replay."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from accel_rl.agents.agent import Agent
from accel_rl.algos.algorithm import advance, set_schedules
from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.samplers.episodes import Episode, EpisodeTracker
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.training.context import Exchange
from accel_rl.training.learner import Learner
from accel_rl.training.schedule import Schedule

WAIT_S = 0.05  # The replay is polled every WAIT_S seconds while it has too few transitions.
UPDATES_A_CYCLE = 8


class Sampling(Schedule):
    """Stores rollouts in the replay, while other ranks learn."""

    def __init__(self, sampler: RolloutSampler, learner: Learner, exchange: Exchange):
        self._sampler = sampler
        self._learner = learner
        self._exchange = exchange

    def cycle(self, remaining: int = 0) -> tuple[int, list[UpdateMetrics]]:
        algo = self._learner.algo
        assert isinstance(algo, ReplayAlgorithm)
        rollout = self._sampler.collect(self._exchange.agent(algo.agent, self._learner.gradient_sync))
        advance(algo, rollout)
        algo.store(rollout)
        return rollout.env_steps, []


class Learning(Schedule):
    """Learns from the replay as fast as possible, while other ranks sample."""

    def __init__(self, learner: Learner):
        self._learner = learner

    def cycle(self, remaining: int = 0) -> tuple[int, list[UpdateMetrics]]:
        """Make UPDATES_A_CYCLE updates, or wait briefly if the replay has too few transitions."""
        algo = self._learner.algo
        assert isinstance(algo, ReplayAlgorithm)
        if not len(algo.replay):
            time.sleep(WAIT_S)
            return 0, []
        algo.budget.set(UPDATES_A_CYCLE)
        set_schedules(algo)
        return 0, self._learner.learn()


class NoSampler:
    """Replaces the sampler in a rank that does not sample, and has neither environments nor worker processes."""

    T = B = 0
    buffers = dropped = 0
    idle: np.ndarray | None = None

    def __init__(self, spec: EnvSpec):
        self.spec, self.episodes = spec, EpisodeTracker(0)
        self.finished: list[Episode] = []

    def start(self) -> None: ...

    def collect(self, agent: Agent) -> Rollout:
        raise AssertionError("this rank does not sample")

    def rollouts(self, agent: Agent, fixed: bool = False) -> Iterator[Rollout]:
        raise AssertionError("this rank does not sample")

    def check(self) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {"episodes": self.episodes.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def reseed(self, seed: int) -> None: ...

    def close(self) -> None: ...
