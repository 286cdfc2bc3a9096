"""A clock, an exchange and a barrier connect a trainer to the other ranks. The base classes in this module are for a
run of one rank."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from accel_rl.algos.algorithm import Algorithm
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.distributed.gradient_sync import GradientSync, Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.optim.flat import FlatParameters
from accel_rl.samplers.episodes import EpisodeTracker, Recent


class Clock:
    """Counts the env steps of the run and decides when the run ends."""

    def count(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        """Add `taken` env steps of this rank to `env_steps` of all ranks, and return the new count of all ranks.
        `episodes` and `updates` are this rank's totals so far."""
        return env_steps + taken

    def progress(self, share: float) -> float:
        """The completed fraction of the run. `share` is the completed fraction of the run's env steps."""
        return share

    def end(self) -> None:
        """End the run on all ranks after their current cycles. Rank 0 calls `end`."""

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """(whether the run ends now, whether a checkpoint is due), equal on all synchronous ranks. `stop` is true if
        this rank received a request to stop, and `save` if enough time has passed since this rank's last checkpoint."""
        return stop, save

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[Recent], int, int]:
        """The recent episodes, the number of episodes and the number of updates, over all ranks."""
        return list(episodes.recent), episodes.count, updates

    def means(self, of_rank: dict[str, float]) -> dict[str, float]:
        """The metrics of a row, from this rank's means since the last row. Ranks that share batches average their means
        on rank 0."""
        return of_rank


class Exchange:
    """Connects a rank's learner to the learners of other ranks."""

    communicator: Communicator = SINGLE_PROCESS

    @property
    def captures_updates(self) -> bool:
        """Whether updates can be captured as CUDA graphs, which is false if gradients pass through the host's
        memory."""
        return True

    @property
    def updates(self) -> int:
        """Number of updates so far by other ranks that may update the parameters while this rank samples, or 0."""
        return 0

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        return Local(GuardedStep(flat, algo.build_optimizer(len(flat.data)), algo.config.max_grad_norm))

    def begin(self, algo: Algorithm) -> None:
        """Set the replay buffer, which belongs to this rank alone or is shared by several ranks."""
        algo.begin()

    def open(self, gradient_sync: GradientSync, env_steps: int) -> None:
        """Connect to the other ranks, before sampling begins."""

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        return agent


class Barrier:
    """Makes ranks wait for each other."""

    saves_together = False
    """Whether all ranks write the parts of a checkpoint together, and wait until all parts are complete."""

    def agreed(self, done: bool) -> bool:
        """The value of `done` on rank 0: whether rank 0 has completed a task, such as an evaluation."""
        return done

    def beat(self) -> None:
        """Signal to waiting ranks that rank 0 is still working."""

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A context in which this rank writes its part of a checkpoint. Rank 0 writes its part after all other
        ranks."""
        yield


@dataclass(slots=True)
class RankContext:
    clock: Clock = field(default_factory=Clock)
    exchange: Exchange = field(default_factory=Exchange)
    barrier: Barrier = field(default_factory=Barrier)
    rank: int = 0
    samples: bool = True
    learns: bool = True


SINGLE_RANK = RankContext()
