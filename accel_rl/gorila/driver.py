"""The driver of a cluster run starts the run's processes, replaces processes that die, and writes the run folder."""

import logging
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.gorila.board import BoardKeeper, MemberCount, Work
from accel_rl.gorila.global_replay import ReplayKeeper
from accel_rl.gorila.members import Evaluated, Members, Nodes, RemoteEvaluator, share_of
from accel_rl.gorila.ray_session import START_S, check_address, check_ray, connected
from accel_rl.gorila.setup import Reader, Role, Setup
from accel_rl.gorila.shard import Snapshot
from accel_rl.gorila.shard_actors import RayShards
from accel_rl.machine import hardware
from accel_rl.metrics.sinks import Row
from accel_rl.models.network_state import network_state
from accel_rl.planning.plan import RunPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.episodes import Recent, episode_metrics
from accel_rl.settings.resolved import Resolved
from accel_rl.text import output
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training import initial_network
from accel_rl.training.callback import Callbacks, Training
from accel_rl.training.context import SINGLE_RANK
from accel_rl.training.evaluation import Evaluation, Result
from accel_rl.training.learner import Learner, build_algorithm
from accel_rl.training.observers import NO_OBSERVERS, Observers, UserSink
from accel_rl.training.reporter import Counters, Reporter
from accel_rl.training.seeds import Stream, derived_seed, own_generator
from accel_rl.training.signals import StopRequest
from accel_rl.training.stored_agents import BestAgent, agent_state

logger = logging.getLogger(__name__)

LOOK_S = 0.1  # The driver polls every process every LOOK_S seconds.
# The driver waits at most ANSWER_S seconds for the answer of one process.
# ANSWER_S is short, because cluster members end if the driver does not call the board for 30 s.
ANSWER_S = 10.0
SAVE_S = 5.0  # At the run's end, a checkpoint is saved if a member has not ended after `SAVE_S` seconds.
END_S = 120.0  # The members have `END_S` seconds to finish a training cycle and save a checkpoint when the run ends.


class Driver:
    """Starts and supervises the shards, the board, the members and the evaluator until the run ends."""

    def __init__(
        self,
        ray: Any,
        config: Resolved,
        run: RunFolder,
        state: dict[str, Any] | None = None,
        observers: Observers = NO_OBSERVERS,
    ):
        """`state` is the state of the checkpoint from which the run continues, or None for a new run."""
        self.config = config
        self.run_folder = run
        g = config.gorila
        self.counters = Counters()
        self.reporter = Reporter(config, run, SINGLE_RANK, [UserSink(sink) for sink in observers.sinks])
        self.callbacks = Callbacks(observers.callbacks, Training(config, None, run, self.counters, self._counts))
        self.setup = Setup(config.to_dict(), str(run.path.absolute()), f"run-{secrets.token_hex(4)}")
        reader = Reader("driver", g)
        spec = config.spec
        run.write_json("protocol.json", spec.protocol)
        self.learner = Learner(config, spec, "cpu", derived_seed(config.seed, Stream.MODEL), reader)
        if state is None:
            initial_network.load(run, self.learner)
        self.sync = reader.sync
        numbers: dict[Role, int] = {"bundle": g.bundles, "actor": g.actors, "learner": g.learners}
        self.roles: list[Role] = [role for role, n in numbers.items() for _ in range(n)]
        counts = [MemberCount() for _ in self.roles]
        rows = 0
        if state is not None:
            counts, rows = self._restore(state), state["rows"]
        self.shards = RayShards(ray, self.sync.build_shards(), self.setup.name)
        self.reporter.open(self.counters.env_steps, rows, self.updates if g.updates else None)
        self.board = BoardKeeper(ray, self.setup.board, counts, config.log.window)
        self.replay = None
        if g.replay == "global":
            self.replay = ReplayKeeper(ray, self.setup, g.bundles + g.actors)
        self.nodes = Nodes(ray)
        self.members = Members(ray, self.setup, self.roles, counts, self.nodes.share(config))
        self.evaluator = RemoteEvaluator(ray, self.setup, config.seed)
        self.pushes = PushReport()
        self.evaluation: Evaluation | None = None
        self.best = BestAgent(run)
        self._shards_replaced, self._snapshot_at = 0, self.updates
        self._short_since: float | None = None  # Time since which too few bundles have been running
        self._saved_s = time.monotonic()
        self._short_s = max(g.timeout_s, START_S)

    def _restore(self, state: dict[str, Any]) -> list[MemberCount]:
        counters = self.counters
        counters.env_steps = counters.saved_at = state["env_steps"]
        counters.evaluated_at, counters.logged_at = state["evaluated_at"], state["logged_at"]
        self.reporter.time.load_state_dict(state["time"])
        self.learner.algo.agent.load_state_dict(state["learner"]["algo"]["agent"])
        self.learner.load_trained(state["learner"])
        counts = [MemberCount.from_dict(d) for d in state["members"]]
        if len(counts) != len(self.roles):
            raise RunError(f"the checkpoint is of {len(counts)} members, the run has {len(self.roles)}")
        return counts

    def _counts(self) -> tuple[list[Recent], int, int]:
        """The recent episodes, the number of episodes and the number of updates of all members."""
        return list(self.board.recent), self.board.total.episodes, self.updates

    @property
    def updates(self) -> int:
        return self.shards.status[0][0].updates

    def train(self) -> Result:
        """Train until the run ends or receives SIGINT or SIGTERM. Raises RunError if the run cannot continue."""
        try:
            with StopRequest() as stop, output.written(self.reporter.record, self.reporter.event):
                self.reporter.begin(self.counters.env_steps)
                self.pushes.since_last(self._shard_counts(), self.board.total)
                self.callbacks("on_start")
                while not (stop or self.callbacks.stopped or self._done() or self.members.ended):
                    self._turn(ending=False)
                    self.run_folder.follow()
                    if self.run_folder.moved:
                        break
                    self._housekeeping()
                self._end_members()
                self.shards.refresh(ANSWER_S)
                self.board.read(True, ANSWER_S)
                if not (stop or self.callbacks.stopped or self.run_folder.moved) and self.config.evaluation.interval:
                    self._finish_evaluation()
                self._row(None)
                self.save()
                self.run_folder.raise_if_moved(self.counters.env_steps)
                self.callbacks("on_end")
                score = episode_metrics(self.board.recent)["score"]
                return Result(
                    self.counters.env_steps, score, self.evaluation, stop.exit_code, self.reporter.time.wall_s
                )
        except RunError as error:
            raise self.run_folder.logged(error) from error
        finally:
            self.close()

    def _done(self) -> bool:
        limit = self.config.gorila.updates
        return self.updates >= limit if limit else self.counters.env_steps >= self.config.env_steps

    def _turn(self, ending: bool) -> None:
        """Check all processes of the run once, and raise RunError if the run cannot continue."""
        g = self.config.gorila
        time.sleep(LOOK_S)
        self.board.read(ending, ANSWER_S)
        self.counters.env_steps = max(self.counters.env_steps, self.board.total.env_steps)
        for i in self.shards.look(g.timeout_s / 3):
            self._shards_replaced += 1
            logger.warning(f"shard {i} was lost: it continues from its snapshot, in a new epoch")
        if self.replay is not None:
            self.replay.look()
        self.members.look(self.board.members, ending)
        self.nodes.look()
        if not ending:
            self._require_members()
        self.reporter.progress(self.updates if g.updates else self.counters.env_steps, self.board.recent)

    def _require_members(self) -> None:
        """Raise RunError if fewer than --gorila.min-bundles members have been running for --gorila.timeout-s seconds.
        At the start of the run, the limit is at least START_S."""
        g, now = self.config.gorila, time.monotonic()
        if self.members.running + sum(seat.ended for seat in self.members.seats) >= g.min_bundles:
            self._short_since, self._short_s = None, g.timeout_s
            return
        self._short_since = self._short_since or now
        if now - self._short_since > self._short_s:
            self.save()
            raise RunError(
                f"{self.members.running} bundles have been running for {self._short_s:g} s, and --gorila.min-bundles "
                f"{g.min_bundles} are needed; saved at {self.counters.env_steps:,} env steps"
            )

    def _housekeeping(self) -> None:
        """Take a snapshot of the shards, start an evaluation, write a row of metrics and save a checkpoint, each if it
        is due."""
        counters, config = self.counters, self.config
        if self.updates // config.gorila.snapshot_updates > self._snapshot_at // config.gorila.snapshot_updates:
            self._snapshot()
        evaluated = self.evaluator.look()
        due = bool(config.evaluation.interval) and counters.due(
            counters.evaluated_at, config.evaluation.interval, done=False
        )
        if due and not self.evaluator.busy and evaluated is None:
            self._begin_evaluation()
        if evaluated is not None or counters.due(counters.logged_at, config.log_interval(), done=False):
            self._row(evaluated)
        is_late = config.checkpoint.is_due(time.monotonic() - self._saved_s)
        if is_late or counters.due(counters.saved_at, config.checkpoint.interval or 0, done=False):
            self.save()

    def _begin_evaluation(self) -> None:
        counters = self.counters
        length = counters.env_steps if self.config.gorila.updates else self.config.env_steps
        self.evaluator.begin(counters.env_steps, self.config.evaluation.size(length))
        counters.evaluated_at = counters.env_steps

    def _finish_evaluation(self) -> None:
        """At the run's end, wait for the running evaluation, and evaluate the final parameters."""
        self.reporter.evaluating()
        self._await_evaluation()
        if self.counters.env_steps != self.counters.evaluated_at:
            self._begin_evaluation()
            self._await_evaluation()

    def _await_evaluation(self) -> None:
        while self.evaluator.busy:
            if (evaluated := self.evaluator.look(wait_s=LOOK_S)) is not None:
                self._row(evaluated)
            self._turn(ending=True)

    def _row(self, evaluated: Evaluated | None) -> None:
        """Write a row of metrics, and the result of an evaluation if `evaluated` is not None."""
        if evaluated is None and self.counters.logged_at == self.counters.env_steps:
            return
        evaluations = []
        if evaluated is not None:
            self.evaluation = evaluated.evaluation
            evaluations.append(evaluated.evaluation)
            self.reporter.evaluated(evaluated.env_steps, evaluations)
            network = self.learner.network(evaluated.parameters)
            state = agent_state(self.learner.algo.agent.state_dict(), network)
            self.best.note(evaluated.env_steps, evaluated.evaluation, state)
            self.callbacks("on_evaluation", evaluated.evaluation)
        work, members = self.board.total, self.members
        values: Row = {
            "updates": self.updates,
            "episodes": work.episodes,
            **episode_metrics(self.board.recent),
            **self.pushes.since_last(self._shard_counts(), work),
            "skipped_updates": work.skipped,
            "bundles_running": members.running,
            "bundles_replaced": members.replaced,
            "shards_replaced": self._shards_replaced,
            "evaluators_replaced": self.evaluator.replaced,
            **({"replays_replaced": self.replay.replaced} if self.replay is not None else {}),
            "nodes": len(self.nodes),
        }
        if line := self.pushes.stale(self.config.gorila.delay_limit):
            logger.warning(line)
        values |= self.callbacks.row(list(values))
        self.reporter.write(self.counters, values, evaluations, {})
        self.counters.logged_at = self.counters.env_steps

    def _shard_counts(self) -> list[Counter[str]]:
        return [counts for _, counts in self.shards.status]

    def _end_members(self) -> None:
        """Request that the members end, and wait until their processes have ended. If a member has not ended after
        SAVE_S seconds, save a checkpoint, because a batch system kills a run soon after its first signal."""
        began, saved = time.monotonic(), False
        while not self.members.ended:
            self._turn(ending=True)
            if not saved and time.monotonic() > began + SAVE_S:
                self.save()
                saved = True
            if time.monotonic() > began + END_S:
                late = ", ".join(seat.name for seat in self.members.seats if not seat.ended)
                logger.warning(f"{late} did not end within {END_S:g} s")
                return

    def save(self) -> None:
        """Write a checkpoint of the shards' state and of all counts."""
        counters = self.counters
        counters.saved_at, self._saved_s = counters.env_steps, time.monotonic()
        checkpoints = Checkpoints(self.run_folder.path / "checkpoints", self.config.checkpoint.keep)
        checkpoints.save(counters.env_steps, self.state_dict(self._snapshot()), self.reporter.time.state_dict())
        self.callbacks("on_checkpoint", checkpoints.path(counters.env_steps))

    def _snapshot(self) -> list[Snapshot]:
        """Take a snapshot of each shard, and return the snapshots. For a shard that does not answer, the previous
        snapshot is returned."""
        self._snapshot_at = self.updates
        return self.shards.save(ANSWER_S)

    def state_dict(self, snapshots: list[Snapshot]) -> dict[str, Any]:
        return {
            "config": {"algorithm": self.config.algorithm, "env": self.config.env.to_dict()},
            "env_steps": self.counters.env_steps,
            "evaluated_at": self.counters.evaluated_at,
            "logged_at": self.counters.logged_at,
            "rows": self.reporter.rows,
            "learner": {
                "algo": {"agent": self.learner.algo.agent.state_dict()},
                **self.learner.trained_state(self.sync.state_of(snapshots)),
                "updates": self.updates,
            },
            "members": [m.to_dict() for m in self.board.members],
        }

    def close(self) -> None:
        self.members.close()
        self.evaluator.close()
        if self.replay is not None:
            self.replay.close()
        self.shards.close()
        self.board.close()
        self.learner.close()
        self.reporter.close()


STALE_SHARE = 0.05
"""A warning is logged if more than this share of all gradient pushes is discarded because the pushes are too old."""
FEWEST_PUSHES = 1_000


class PushReport:
    """Computes metrics of gradient pushes since the last row, from the counts of shards and members."""

    def __init__(self) -> None:
        self._last_time = time.monotonic()
        self._last = Counter[str]()
        self._moved = 0
        self._said = False

    def since_last(self, shards: Sequence[Counter[str]], work: Work) -> Row:
        """The run's total counts, and the rates and mean delay of pushes since the last row of metrics.

        `push_delay` is the mean age of a push: the number of other pushes that a shard accepted since the learner
        pulled the parameters.
        """
        now = sum(shards, Counter[str]())
        time_now, last = time.monotonic(), self._last
        seconds = max(time_now - self._last_time, 1e-9)
        accepted = max(0, now["accepted"] - last["accepted"])
        row: Row = {
            "pushes_accepted": now["accepted"],
            "pushes_stale": now["stale"],
            "pushes_duplicate": now["duplicate"],
            "pushes_refused": now["refused"],
            "pushes_lost": work.lost,
            "gradients_outlier": work.outliers,
            "push_delay": (now["delay"] - last["delay"]) / accepted if accepted else float("nan"),
            "pushes_per_s": round(accepted / seconds, 1),
            "bytes_per_s": round(max(0, work.moved - self._moved) / seconds),
        }
        self._last_time = time_now
        self._last = now
        self._moved = work.moved
        return row

    def stale(self, limit: int) -> str:
        """Return a warning, only once, if more than STALE_SHARE of all pushes so far were too old, and otherwise "". A
        push is too old if a shard has accepted more than `limit` other pushes since the learner's pull."""
        stale = self._last["stale"]
        pushes = self._last["accepted"] + stale
        if self._said or pushes < FEWEST_PUSHES or stale <= STALE_SHARE * pushes:
            return ""
        self._said = True
        return (
            f"{stale / pushes:.0%} of the pushes were discarded, as they were more than {limit:,} others "
            f"old; use a larger --gorila.max-delay, or --gorila.in-flight 0"
        )


def check(config: Resolved) -> None:
    """Raise ConfigError for settings that are impossible on this machine, before any process starts. The memory of
    other machines is not checked."""
    _check_fit(config)
    _check_network(config)
    check_ray()


def _check_fit(config: Resolved) -> None:
    g = config.gorila
    if config.address:
        check_address(config.address)
        return
    share_of([len(hardware.usable_cores(config.sampler.cores))], g.members, g.bundle_cpus, "bundle-cpus", "cores")
    if isinstance(config.algo, ReplayAlgorithmConfig):
        replay, replays = config.algo.replay, g.bundles if g.replay == "local" else 1
        need = replays * replay.size * replay.bytes_each(config.spec)
        free = 0.95 * hardware.free_memory("cpu")
        if need > free and replay.where("cpu") == "cpu":
            raise ConfigError(
                f"--replay.size {replay.size}: the replays of {replays} bundles need {need / 2**30:.2f} GiB, where "
                f"{free / 2**30:.2f} GiB are free; at most {int(replay.size * free / need)}"
            )


def _check_network(config: Resolved) -> None:
    """Raise ConfigError for a network with buffers, whose values would differ between members. A network with frozen
    parameters also raises ConfigError with --init, because the members would initialise these parameters
    differently."""
    with own_generator("cpu", seed=0):
        model = build_algorithm(config, config.spec, "cpu").agent.model
    parameters = dict(model.named_parameters())
    if buffers := [name for name in network_state(model) if name not in parameters]:
        raise ConfigError(
            f"--cluster gorila: the shards hold parameters alone, and {config.algorithm}'s network has buffers "
            f"({buffers[0]}); a constant one can be registered with persistent=False"
        )
    frozen = [name for name, p in parameters.items() if not p.requires_grad]
    if config.init and frozen:
        raise ConfigError(
            f"--cluster gorila with --init: frozen parameters would differ between members ({frozen[0]}); train on "
            "one machine, or leave out --init"
        )


def launch(plan: RunPlan, run: RunFolder, state: dict[str, Any] | None, objects: Observers | None) -> Result:
    """Train from the checkpoint `state`, or from the beginning if `state` is None."""
    config = plan.config
    with connected(config.address, hardware.usable_cores(config.sampler.cores)) as ray:
        return Driver(ray, config, run, state, objects or Observers.of(config)).train()
