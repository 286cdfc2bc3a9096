"""The interface between a trainer and the other ranks, and its form for a run of one rank."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from accel_rl.algos.algorithm import Algorithm
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.distributed.gradient_sync import GradientSync, Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.optim.flat import FlatParameters
from accel_rl.samplers.episodes import EpisodeTracker


class RankContext(Protocol):
    """`SingleRank`, `SyncContext` or `AsyncContext`. Rank 0 reports, evaluates and owns the run folder."""

    rank: int
    size: int
    samples: bool
    """Whether this rank samples."""
    learns: bool
    """Whether this rank learns."""

    @property
    def captures_updates(self) -> bool:
        """Whether a GPU may replay updates: not if each of them goes through the host."""

    @property
    def communicator(self) -> Communicator: ...

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync: ...

    def begin(self, algo: Algorithm) -> None:
        """Give the algorithm what it learns from: a replay of its own, or one that ranks share."""

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        """Return the agent that samples."""

    def opened(self, gradient_sync: GradientSync, env_steps: int) -> None:
        """Called after the state, if any, is loaded; returns when sampling may begin."""

    def progress(self, share: float) -> float:
        """Return the fraction of the run that is done. share: of its env steps."""

    def clock(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        """Return the env steps of the run (of all ranks), after this rank took `taken` more.

        env_steps: the previous value. episodes, updates: of this rank so far.
        """

    def stops(self, asked: bool) -> bool:
        """Whether the run ends now. asked: whether this rank was asked to stop."""

    def agreed(self, done: bool) -> bool:
        """Return rank 0's `done`: whether rank 0 completed its own work, such as an evaluation."""

    def beat(self) -> None:
        """Tell waiting ranks that rank 0 is still working."""

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[tuple[float, int]], int, int]:
        """Return ((score, length) of recent episodes, number of episodes, number of updates) of all ranks.

        Counts are those at the last call of `clock`.
        """

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Context in which this rank writes its part of a checkpoint; rank 0 writes last."""


class SamplesAndLearns:
    """Base class of the contexts of ranks that sample, and learn from their own steps."""

    samples = learns = True

    def begin(self, algo: Algorithm) -> None:
        algo.begin()

    def progress(self, share: float) -> float:
        return share

    def beat(self) -> None:
        """No rank waits for this one."""


class SingleRank(SamplesAndLearns):
    """A run of one rank."""

    rank, size = 0, 1
    captures_updates = True
    communicator: Communicator = SINGLE_PROCESS

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        return Local(GuardedStep(flat, algo.build_optimizer(len(flat.data)), algo.config.max_grad_norm))

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        return agent

    def opened(self, gradient_sync: GradientSync, env_steps: int) -> None:
        pass

    def clock(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        return env_steps + taken

    def stops(self, asked: bool) -> bool:
        return asked

    def agreed(self, done: bool) -> bool:
        return done

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[tuple[float, int]], int, int]:
        return list(episodes.recent), episodes.count, updates

    @contextmanager
    def saving(self) -> Iterator[None]:
        yield


SINGLE_RANK = SingleRank()
