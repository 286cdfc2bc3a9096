"""The rank context of a member of a cluster run: its learner uses the shards, its counts go to the board."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accel_rl.algos.algorithm import Algorithm
from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.config.gorila import GorilaConfig
from accel_rl.distributed.communicator import SingleProcess
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.parameter_server.sharded_sync import ShardedSync
from accel_rl.distributed.parameter_server.transport import Transport
from accel_rl.optim.flat import FlatParameters
from accel_rl.runners.cluster.board import Work
from accel_rl.runners.cluster.board_line import BoardLine
from accel_rl.runners.cluster.remote_replay import RemoteReplay
from accel_rl.runners.cluster.setup import Role
from accel_rl.samplers.episodes import EpisodeTracker


class ServerUpdates(SingleProcess):
    """The communicator of a member: batches are its own, schedules of updates follow those of the shards."""

    sync: ShardedSync | None = None

    def updates(self, own: int) -> int:
        return self.sync.server_updates if self.sync is not None else 0


class MemberContext:
    """The `RankContext` of a member. It neither evaluates nor shows progress: the driver does."""

    captures_updates = False
    size = 1

    def __init__(
        self,
        rank: int,
        config: GorilaConfig,
        transport: Transport,
        line: BoardLine,
        state: dict[str, Any] | None = None,
        role: Role = "bundle",
        replay: Callable[[Algorithm], RemoteReplay] | None = None,
    ):
        """rank: of the member; its seeds follow from it. transport: to the shards. state: of the checkpoint that this
        process continues from. replay: builds the client of the global replay; None: the replay is local."""
        self.rank, self._config, self._transport, self._line = rank, config, transport, line
        self.samples, self.learns, self._replay = role != "learner", role != "actor", replay
        self.communicator = ServerUpdates()
        self._sync: ShardedSync | None = None
        self._env_steps = 0  # by this process
        # what earlier processes of this member have done, which is part of its counts
        self._earlier = Work()
        if state is not None:
            sync = state["learner"]["gradient_sync"]
            self._earlier = Work(
                0, state["sampler"]["episodes"]["count"], state["learner"]["updates"], sync["skipped"],
                sync["counts"]["outliers"], sync["counts"]["lost"],
                outliers_won=sync["counts"]["outliers_won"], batches_won=sync["counts"]["batches_won"],
            )  # fmt: skip
        self._refreshed = -1
        self._last: tuple[Work, list[tuple[float, int]]] = Work(), []

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        self._sync = ShardedSync(
            flat, algo.build_optimizer, algo.config.max_grad_norm, self._config, f"member-{self.rank}",
            saves_shards=False,
            usual_loss=algo.config.usual_loss(),
            rewards=lambda: algo.rewards if isinstance(algo, ReplayAlgorithm) else None,
        )  # fmt: skip
        self.communicator.sync = self._sync
        return self._sync

    def begin(self, algo: Algorithm) -> None:
        if self._replay is None:
            algo.begin()
        else:
            assert isinstance(algo, ReplayAlgorithm)
            algo.replay = self._replay(algo)

    def opened(self, gradient_sync: GradientSync, env_steps: int) -> None:
        assert self._sync is gradient_sync and self._sync is not None
        self._sync.connect(self._transport, publish=False)

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        """Pull before a rollout, unless an update has just done so (Nair et al. 2015, algorithm 1)."""
        assert self._sync is not None
        if self._sync.refreshed == self._refreshed:
            self._sync.pull_now()
        self._refreshed = self._sync.refreshed
        return agent

    def clock(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        self._env_steps += taken
        self._last = self._work(episodes.count, updates), list(episodes.recent)
        self._line.tell(*self._last)
        since = self._env_steps - self._line.answered.env_steps
        return max(env_steps, self._line.answer.env_steps + since)

    def _work(self, episodes: int, updates: int) -> Work:
        sync = self._sync
        assert sync is not None
        counts = sync.counts
        all_of_it = Work(
            self._env_steps, episodes, updates, sync.skipped, counts.outliers, counts.lost, sync.bytes_moved,
            outliers_won=counts.outliers_won, batches_won=counts.batches_won,
        )  # fmt: skip
        return all_of_it - self._earlier

    def progress(self, share: float) -> float:
        assert self._sync is not None
        limit = self._config.updates
        return min(1.0, self._sync.server_updates / limit) if limit else share

    def stops(self, asked: bool) -> bool:
        assert self._sync is not None
        limit = self._config.updates
        done = limit is not None and self._sync.server_updates >= limit
        return asked or done or self._line.answer.stop or self._line.lost

    def agreed(self, done: bool) -> bool:
        return True  # the driver evaluates

    def beat(self) -> None:
        pass

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[tuple[float, int]], int, int]:
        return list(episodes.recent), episodes.count, updates

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Members save independently: parameters are the shards', all other state is the member's own. The board then
        has all that the checkpoint has, also at the end."""
        if not self._line.lost:
            self._line.ask(*self._last)
        yield
