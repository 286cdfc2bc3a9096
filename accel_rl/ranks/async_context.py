"""Asynchronous ranks (training processes) sample and learn at their own pace, and share central parameters. Source:
Stooke & Abbeel 2018, section 4.3."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from accel_rl.algos.algorithm import Algorithm
from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.data.shared_memory import address, open_at
from accel_rl.distributed.central import Central
from accel_rl.distributed.collective import Watch
from accel_rl.distributed.communicator import CountedSteps, SingleProcess
from accel_rl.distributed.distributed_config import DistributedConfig
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.multi_step_adam import MultiStepAdam
from accel_rl.distributed.patient_store import PatientStore
from accel_rl.optim.flat import FlatParameters
from accel_rl.planning.plan import RankPlan
from accel_rl.ranks.shared_counters import SharedCounters, StalledRanks
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.episodes import EpisodeTracker, Recent
from accel_rl.samplers.inference.pulling_agent import PullingAgent
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.context import Barrier, Clock, Exchange, RankContext
from accel_rl.training.evaluation import Result
from accel_rl.training.observers import Observers

logger = logging.getLogger(__name__)
START_S = 600.0  # Rank 0 has `START_S` seconds to load its checkpoint.


class OwnBatches(SingleProcess):
    """An asynchronous rank does not share its training batches with other ranks.

    The learning rate and other schedules follow the env steps of all ranks. Schedules that count updates follow the
    updates of this rank alone.
    """

    def __init__(self, counters: SharedCounters, rank: int):
        self._counters = counters
        self._rank = rank
        self._env_steps = self._counted = 0

    def begin(self, env_steps: int) -> None:
        """Record that the algorithm's training starts at env step `env_steps`."""
        self._env_steps, self._counted = self._counters.of_rank(self._rank), env_steps

    def count(self, env_steps: int) -> CountedSteps:
        self._env_steps += env_steps
        now = self._counters.totals().env_steps - self._counters.of_rank(self._rank) + self._env_steps
        passed, self._counted = now - self._counted, now
        return CountedSteps(passed, env_steps)


@dataclass
class AsyncClock(Clock):
    """Counts env steps in the counters that all ranks share.

    `watch` contains the other ranks' processes, unless a `RankGroup` replaces lost ranks. This rank kills processes in
    `watch` that stall, and stops the run if a process in `watch` is lost.
    """

    counters: SharedCounters
    rank: int
    config: Resolved
    watch: Watch | None = None
    lost: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._totals, self._stalled = self.counters.totals(), StalledRanks(self.counters, self.config)

    def count(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        self.counters.add(self.rank, taken, updates, episodes)
        self._totals = self.counters.totals()
        return self._totals.env_steps

    def end(self) -> None:
        self.counters.stop()

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        if self.watch and not stop and self.counters.totals().env_steps < self.config.env_steps:
            for rank, line in self._stalled.find(self.watch.pids()).items():
                logger.warning(line)
                self.watch.kill(rank)
            self.lost = self.watch.gone()
        return stop or self.counters.stopped or bool(self.lost), save

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[Recent], int, int]:
        return self.counters.recent(), self._totals.episodes, self._totals.updates


@dataclass
class AsyncExchange(Exchange):
    """Applies each gradient to central parameters in shared memory."""

    counters: SharedCounters
    rank: int
    config: DistributedConfig
    central_fd: int
    watch: Watch | None = None
    captures_updates = False

    def __post_init__(self) -> None:
        self.communicator = self._batches = OwnBatches(self.counters, self.rank)
        self._pulling: PullingAgent | None = None

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        c = self.config
        common = flat, algo.build_optimizer, algo.config.max_grad_norm, c.chunks, self.rank
        sync = MultiStepAdam(*common, c.local_updates) if c.local_updates > 1 else LockedChunks(*common)
        sync.beat = partial(self.counters.beat, self.rank)
        return sync

    @property
    def updates(self) -> int:
        return self.counters.totals().updates

    def open(self, gradient_sync: GradientSync, env_steps: int) -> None:
        """When a run begins, rank 0 writes its parameters as the central parameters, and the other ranks wait. Raises
        RunError if rank 0 is lost or does not begin within START_S seconds."""
        assert isinstance(gradient_sync, LockedChunks)
        first = self.rank == 0 and not self.counters.begun
        deadline = time.monotonic() + START_S
        while not (first or self.counters.begun):
            if time.monotonic() > deadline:
                raise RunError(f"rank {self.rank}: rank 0 has not begun within {START_S:g} s")
            if self.watch and 0 in self.watch.gone():
                raise RunError(f"rank {self.rank}: rank 0 is gone, and had not begun")
            time.sleep(0.01)
        gradient_sync.connect(
            Central(gradient_sync.parts, gradient_sync.states(), self.central_fd, create=first), publish=first
        )
        gradient_sync.warmup_updates = self.config.warmup_updates if not env_steps else 0
        if first:
            self.counters.begin(env_steps)
        self._batches.begin(env_steps)

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        assert isinstance(gradient_sync, LockedChunks)
        if self._pulling is None or self._pulling.wrapped is not agent:
            self._pulling = PullingAgent(agent, gradient_sync, self.config.pull_steps)
        self._pulling.begin()
        return self._pulling


@dataclass
class AsyncBarrier(Barrier):
    """Asynchronous ranks save their checkpoints independently of each other."""

    counters: SharedCounters
    rank: int

    def beat(self) -> None:
        self.counters.beat(self.rank)

    @contextmanager
    def saving(self) -> Iterator[None]:
        self.counters.rest(self.rank)  # Writing a large replay takes minutes.
        yield

    def agreed(self, done: bool) -> bool:
        return done or self.rank > 0  # Asynchronous ranks do not wait for rank 0's evaluation.


def connect(store: PatientStore, rank: int, config: Resolved) -> tuple[SharedCounters, int, Watch]:
    """Share memory with the other ranks, if torchrun and not a `RankGroup` started them.

    Rank 0 creates an anonymous memfd and publishes its path in `store`; the other ranks open the path. `connect`
    returns after all ranks have opened the shared memory. After `connect`, each rank can monitor the processes of the
    other ranks. Raises RunError if a rank does not join within timeout_s seconds, and ConfigError if the ranks are not
    all on one machine.
    """
    g = config.distributed
    if rank == 0:
        counters = SharedCounters(g.size, config.window)
        central = os.memfd_create("accel_rl_central", os.MFD_CLOEXEC)
        store.set("memory", f"{address(counters.fd)},{address(central)}")
    else:
        try:
            of_counters, central = map(open_at, store.get("memory").split(","))
        except RunError as e:
            store.set(f"joined/{rank}", f"0 {e}")
            raise _not_one_machine(rank, str(e)) from e
        counters = SharedCounters(g.size, config.window, of_counters)
    store.set(f"joined/{rank}", str(os.getpid()))
    pids = {}
    for r in range(g.size):
        try:
            store.wait([f"joined/{r}"], g.timeout_s)
        except RunError as e:
            raise RunError(f"rank {r} has not joined within {g.timeout_s:g} s: {e}") from e
        pid, _, why = store.get(f"joined/{r}").partition(" ")
        if why:
            raise _not_one_machine(r, why)
        pids[r] = int(pid)
    return counters, central, Watch({r: pid for r, pid in pids.items() if r != rank})


def _not_one_machine(rank: int, why: str) -> ConfigError:
    return ConfigError(
        f"--update async: its ranks share one machine's memory, and rank {rank} does not see rank 0's ({why}); "
        "--nnodes 1, or --update all-reduce"
    )


def train(
    config: Resolved,
    plan: RankPlan,
    folder: RunFolder,
    env_steps: int | None,
    counters: SharedCounters,
    central_fd: int,
    watch: Watch | None = None,
) -> Result:
    """Train to the end of the run, in parallel with the other ranks. Raises RunError, for example if a rank in `watch`
    was lost. All ranks continue from the checkpoint at `env_steps`, which is None for a new run."""
    rank, checkpoints = plan.rank, Checkpoints(folder.path / "checkpoints")
    steps = checkpoints.steps()  # Asynchronous ranks may have saved at different times.
    newest = env_steps if rank == 0 and not counters.begun else steps[-1] if steps else None
    state = None if newest is None else load(checkpoints.path(newest))
    clock = AsyncClock(counters, rank, config, watch)
    exchange = AsyncExchange(counters, rank, config.distributed, central_fd, watch)
    context = RankContext(clock, exchange, AsyncBarrier(counters, rank), rank)
    result = build_trainer(config, plan, folder, state, context, Observers.of(config)).run()
    if clock.lost:
        gone = ", ".join(map(str, clock.lost))
        raise RunError(f"rank {rank}: rank {gone} is gone; stopped at {result.env_steps:,} env steps, and saved")
    return result
