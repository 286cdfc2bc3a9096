"""How a run's trainer stands to the trainers of other ranks. Here: there are none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from accel_rl.algos.base import Algorithm
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.distributed.gradient_sync import GradientSync, Local
from accel_rl.optim.flat import FlatParameters
from accel_rl.samplers.episodes import EpisodeTracker


class RankContext(Protocol):
    """`SingleRank`, `SyncContext` or `AsyncContext`. Rank 0 leads: it reports, evaluates and owns the run folder."""

    rank: int
    size: int

    @property
    def communicator(self) -> Communicator: ...

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync: ...

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        """What samples."""

    def opened(self, gradient_sync: GradientSync, env_steps: int) -> None:
        """The parts are built and a state, if there was one, is loaded; returns when sampling may begin."""

    def clock(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        """The run's env steps, after `taken` more on this rank, which now has these episodes and updates."""

    def stops(self, asked: bool) -> bool:
        """Whether the run ends here, this rank having been asked to or not."""

    def agreed(self, done: bool) -> bool:
        """Whether the leader did what it alone does; others wait for its answer where they have to."""

    def beat(self) -> None:
        """The leader is still at it."""

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[tuple[float, int]], int, int]:
        """(score, length) of the window's episodes, number of episodes and of updates, of all ranks together, as
        they were when the clock was read."""

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around the writing of this rank's part of a checkpoint, the leader's last."""


class SingleRank:
    """One rank."""

    rank, size = 0, 1
    communicator: Communicator = SINGLE_PROCESS

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        return Local(flat, algo.build_optimizer(len(flat.data)), algo.max_grad_norm)

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

    def beat(self) -> None:
        pass

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[tuple[float, int]], int, int]:
        return list(episodes.recent), episodes.count, updates

    @contextmanager
    def saving(self) -> Iterator[None]:
        yield


SINGLE_RANK = SingleRank()
