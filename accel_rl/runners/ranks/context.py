"""A trainer is connected to the other ranks by three objects. The base classes implement these objects for a run of one
rank.

- clock: counts the env steps of all ranks, and decides when the run ends
- exchange: connects this rank's learner to the others: gradients, parameters, replay
- barrier: where ranks wait for rank 0, which evaluates and writes its checkpoint last
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from accel_rl.algos.algorithm import Algorithm
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.distributed.gradient_sync import GradientSync, Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.optim.flat import FlatParameters
from accel_rl.samplers.episodes import EpisodeTracker


class Clock:
    """Count the env steps of the run, and decide when the run ends."""

    def count(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        """Return the env steps of the run (of all ranks), after `taken` further steps of this rank.

        `env_steps` is the previous value. `episodes` and `updates` are this rank's totals so far.
        """
        return env_steps + taken

    def progress(self, share: float) -> float:
        """Return the completed fraction of the run. `share` is the completed fraction of its env steps."""
        return share

    def stops(self, asked: bool) -> bool:
        """Return whether the run ends now. `asked` is true if this rank received a request to stop."""
        return asked

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[tuple[float, int]], int, int]:
        """Return ((score, length) of recent episodes, number of episodes, number of updates) of all ranks.

        The numbers are those of the last call of `count`.
        """
        return list(episodes.recent), episodes.count, updates


class Exchange:
    """Connects a learner to the learners of other ranks."""

    communicator: Communicator = SINGLE_PROCESS

    @property
    def captures_updates(self) -> bool:
        """Return whether a GPU may replay updates. The GPU may not replay updates if each update goes through the
        host."""
        return True

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        """Build the gradient synchronization of a learner."""
        return Local(GuardedStep(flat, algo.build_optimizer(len(flat.data)), algo.config.max_grad_norm))

    def begin(self, algo: Algorithm) -> None:
        """Set the algorithm's replay, which is its own or one that ranks share."""
        algo.begin()

    def open(self, gradient_sync: GradientSync, env_steps: int) -> None:
        """Connect to the other ranks. A state, if there is one, has been loaded before. Sampling may begin after this
        call."""

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        """Return the agent that samples."""
        return agent


class Barrier:
    """The points at which ranks wait for each other."""

    def agreed(self, done: bool) -> bool:
        """Return rank 0's `done`, which is true if rank 0 completed a task such as an evaluation."""
        return done

    def beat(self) -> None:
        """Signal to waiting ranks that rank 0 is still working."""

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Context manager in which this rank writes its part of a checkpoint. Rank 0 writes last."""
        yield


@dataclass(slots=True)
class RankContext:
    """The role of one rank among the ranks of a run. Rank 0 reports, evaluates and owns the run folder."""

    clock: Clock = field(default_factory=Clock)
    exchange: Exchange = field(default_factory=Exchange)
    barrier: Barrier = field(default_factory=Barrier)
    rank: int = 0
    samples: bool = True
    learns: bool = True


SINGLE_RANK = RankContext()
