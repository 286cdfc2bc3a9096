"""A member of a cluster run: a process that samples, learns, or both."""

import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accel_rl.algos.algorithm import Algorithm
from accel_rl.algos.replay_algorithm import ReplayAlgorithm, ReplayAlgorithmConfig
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.distributed.communicator import SingleProcess
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.gorila.board import BoardLine, DriverLost, Work
from accel_rl.gorila.global_replay import RemoteReplay
from accel_rl.gorila.ray_session import load_ray
from accel_rl.gorila.setup import Place, Role, Setup, member_config
from accel_rl.gorila.sharded_sync import ShardedSync
from accel_rl.gorila.transport import ActorTransport
from accel_rl.optim.flat import FlatParameters
from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.episodes import EpisodeTracker, Recent
from accel_rl.settings.gorila_settings import GorilaConfig
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.context import Barrier, Clock, Exchange, RankContext


class Member:
    """The Ray actor of a cluster member, which runs a `Trainer`."""

    def __init__(self, setup: Setup, index: int, life: int, role: Role):
        """`life` is the number of the member's earlier processes."""
        self._setup = setup
        self._index = index
        self._life = life
        self._role = role

    def place(self) -> Place:
        """The Ray node and the machine on which this process runs."""
        return Place.of_process(load_ray())

    def run(self, slot: int, slots: int) -> bool:
        """Train until the run ends, and return true. If the driver has not called the board for LOST_S seconds, the
        member saves a checkpoint and returns false. The function `member_config` explains `slot` and `slots`."""
        warnings.simplefilter("ignore")  # Only the driver prints warnings about settings.
        ray, setup = load_ray(), self._setup
        line = BoardLine(ray, setup.board, self._index, self._life)
        try:
            self._train(member_config(setup.enter(), self._index, slot, slots), line, ActorTransport(ray, setup.shards))
        except DriverLost:
            return False
        return line.ended

    def _train(self, config: Resolved, line: BoardLine, transport: ActorTransport) -> None:
        folder = self._folder()
        state = self._state(folder, line.ask(Work(), []).env_steps)
        replay = self._global_replay if config.gorila.replay == "global" else None
        exchange = MemberExchange(self._index, config.gorila, transport, replay)
        clock = MemberClock(exchange, config.gorila, line, state)
        # Members neither evaluate nor display progress; the driver does.
        samples, learns = self._role != "learner", self._role != "actor"
        context = RankContext(clock, exchange, MemberBarrier(clock, line), self._index, samples, learns)
        build_trainer(config, RankPlan.resolve(config), folder, state, context).run()

    def _global_replay(self, algo: Algorithm) -> RemoteReplay:
        setup, config = self._setup, algo.config
        assert isinstance(config, ReplayAlgorithmConfig)
        return RemoteReplay(
            load_ray(), setup.replay, self._index, self._life, config.replay.start, algo.device,
            setup.config["gorila"]["timeout_s"],
        )  # fmt: skip

    def _folder(self) -> RunFolder:
        """The folder of the member's files, which has no config.json."""
        path = self._setup.member_folder(self._index)
        path.mkdir(parents=True, exist_ok=True)
        return RunFolder(path)

    def _state(self, folder: RunFolder, env_steps: int) -> dict[str, Any] | None:
        """Load the member's newest checkpoint, or return None if there is no valid checkpoint. Without a valid
        checkpoint, the member fills its replay again.

        The checkpoint is renumbered to `env_steps`, the current number of env steps of the run.
        """
        checkpoints = Checkpoints(folder.path / "checkpoints")
        try:
            bring_back(checkpoints, env_steps)
            latest = checkpoints.load_latest()
        except (ConfigError, RunError, OSError, ValueError) as e:
            folder.event(f"starts without its checkpoint: {e}")
            return None
        if latest is None:
            return None
        state = latest[1]
        return {**state, "env_steps": env_steps, "logged_at": min(state["logged_at"], env_steps)}


def bring_back(checkpoints: Checkpoints, env_steps: int) -> None:
    """If a member's newest checkpoint is later than `env_steps`, renumber it to `env_steps`, and remove the other
    checkpoints later than `env_steps`. A member has later checkpoints than `env_steps` if the run continues from a
    driver's checkpoint that is older than the member's."""
    later = [steps for steps in checkpoints.steps() if steps > env_steps]
    for i, steps in enumerate(reversed(later)):
        if i == 0 and not checkpoints.path(env_steps).exists():
            checkpoints.renumber(steps, env_steps)
        else:
            shutil.rmtree(checkpoints.path(steps))


class ServerUpdates(SingleProcess):
    """The communicator of a cluster member, which shares no batches with other members. Schedules in updates use the
    parameter server's number of updates."""

    sync: ShardedSync | None = None

    def updates(self, of_rank: int) -> int:
        return self.sync.server_updates if self.sync is not None else 0


class MemberExchange(Exchange):
    """Connects a member's learner to the parameter server, and to the global replay if the run has
    one."""

    communicator: ServerUpdates
    captures_updates = False
    sync: ShardedSync

    def __init__(
        self,
        rank: int,
        config: GorilaConfig,
        transport: ActorTransport,
        replay: Callable[[Algorithm], RemoteReplay] | None,
    ):
        """`rank` is the number of the member, which determines its seeds. `replay` builds the client of a global
        replay, or is None if the member has a local replay."""
        self._rank = rank
        self._config = config
        self._transport = transport
        self._replay = replay
        self.communicator = ServerUpdates()
        self._refreshed = -1

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        self.sync = self.communicator.sync = ShardedSync(
            flat, algo.build_optimizer, algo.config.max_grad_norm, self._config, f"member-{self._rank}",
            algo.config.usual_loss(),
        )  # fmt: skip
        return self.sync

    def begin(self, algo: Algorithm) -> None:
        if self._replay is None:
            algo.begin()
        else:
            assert isinstance(algo, ReplayAlgorithm)
            algo.replay = self._replay(algo)

    def open(self, gradient_sync: GradientSync, env_steps: int) -> None:
        assert self.sync is gradient_sync
        self.sync.connect(self._transport)

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        """Pull the server's parameters before a rollout (Nair et al. 2015, algorithm 1), and return the agent."""
        if self.sync.refreshed == self._refreshed:
            self.sync.pull_now()
        self._refreshed = self.sync.refreshed
        return agent


class MemberClock(Clock):
    """Reports a member's counts to the board. The board answers with the total env steps of all members."""

    def __init__(self, exchange: MemberExchange, config: GorilaConfig, line: BoardLine, state: dict[str, Any] | None):
        """`state` is the state of the checkpoint from which the member's process continues."""
        self._exchange = exchange
        self._config = config
        self._line = line
        self._env_steps = 0  # The number of env steps of this process
        # The counts of this member's earlier processes
        self._earlier = Work()
        if state is not None:
            sync = state["learner"]["gradient_sync"]
            counts = Counter(sync["counts"])
            self._earlier = Work(
                0, state["sampler"]["episodes"]["count"], state["learner"]["updates"], sync["skipped"],
                counts["outliers"], counts["lost"],
            )  # fmt: skip
        self.last: tuple[Work, list[Recent]] = Work(), []
        """`last` contains the counts, and the recent episodes, of the member's last report."""

    def count(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        self._env_steps += taken
        self.last = self._work(episodes.count, updates), list(episodes.recent)
        self._line.tell(*self.last)
        since = self._env_steps - self._line.answered.env_steps
        return max(env_steps, self._line.answer.env_steps + since)

    def _work(self, episodes: int, updates: int) -> Work:
        sync = self._exchange.sync
        counts = sync.counts
        all_of_it = Work(
            self._env_steps, episodes, updates, sync.skips.total, counts["outliers"], counts["lost"], sync.bytes_moved,
        )  # fmt: skip
        return all_of_it - self._earlier

    def progress(self, share: float) -> float:
        limit = self._config.updates
        return min(1.0, self._exchange.sync.server_updates / limit) if limit else share

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        limit = self._config.updates
        done = limit is not None and self._exchange.sync.server_updates >= limit
        return stop or done or self._line.answer.stop or self._line.lost, save


class MemberBarrier(Barrier):
    """Does not synchronise the members, because cluster members save their checkpoints
    independently."""

    def __init__(self, clock: MemberClock, line: BoardLine):
        self._clock, self._line = clock, line

    def agreed(self, done: bool) -> bool:
        return True  # In a cluster run, only the driver process evaluates the agent.

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A context manager in which a member writes a checkpoint. The member's counts are reported to the board
        first."""
        if not self._line.lost:
            self._line.ask(*self._clock.last)
        yield
