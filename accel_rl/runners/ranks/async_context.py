"""Asynchronous ranks: each samples and learns at its own pace and shares central parameters.

Source: Stooke & Abbeel 2018, section 4.3.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from accel_rl.algos.algorithm import Algorithm
from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.config.resolved import Resolved
from accel_rl.data.shared_memory import address, open_at
from accel_rl.distributed.central import Central
from accel_rl.distributed.collective import Watch
from accel_rl.distributed.communicator import CountedSteps, SingleProcess
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.multi_step_adam import MultiStepAdam
from accel_rl.distributed.settings import DistributedConfig
from accel_rl.optim.flat import FlatParameters
from accel_rl.runners.pulling_agent import PullingAgent
from accel_rl.runners.ranks.context import SamplesAndLearns
from accel_rl.runners.ranks.shared_counters import SharedCounters
from accel_rl.samplers.episodes import EpisodeTracker
from accel_rl.system.errors import ConfigError, RunError

START_S = 600.0  # time for rank 0 to read a checkpoint with a large replay


class Clock(SingleProcess):
    """The communicator of an asynchronous rank: batches are its own, schedules follow the env steps of all ranks.

    On a cluster, schedules of updates follow those of all machines; else each rank counts its own.
    """

    def __init__(self, counters: SharedCounters, rank: int, on_cluster: bool = False):
        self._counters, self._rank, self._on_cluster = counters, rank, on_cluster
        self._own = self._shown = 0

    def begin(self, env_steps: int) -> None:
        """Start counting. env_steps: the algorithm's own count so far."""
        self._own, self._shown = self._counters.of_rank(self._rank), env_steps

    def count(self, env_steps: int) -> CountedSteps:
        self._own += env_steps
        now = self._counters.env_steps() - self._counters.of_rank(self._rank) + self._own
        passed, self._shown = now - self._shown, now
        return CountedSteps(passed, env_steps)

    def updates(self, own: int) -> int:
        return self._counters.all_updates if self._on_cluster else own


class AsyncContext(SamplesAndLearns):
    """The `RankContext` of a rank that shares counters and central parameters with others."""

    captures_updates = False

    def __init__(
        self,
        rank: int,
        config: DistributedConfig,
        counters: SharedCounters,
        central_fd: int,
        env_steps: int | None,
        watch: Watch | None = None,
        until: int = 0,
        all_updates: int | None = None,
        on_cluster: bool = False,
    ):
        """env_steps: of the checkpoint that all ranks continue from; None for a new run.
        watch: the other ranks' processes, if there is no launcher that replaces lost ranks; the run then stops if a
        rank is lost before `until` env steps.
        on_cluster: other machines may train the same parameters. all_updates: the number of updates by all machines
        that ends the run; None: env steps end it.
        """
        self.rank, self.size, self._config = rank, config.size, config
        self._watch, self._until, self.lost = watch, until, list[int]()
        self._counters, self._fd, self._from = counters, central_fd, env_steps
        self._totals = counters.totals()
        self._all_updates, self._on_cluster = all_updates, on_cluster
        self.communicator = Clock(counters, rank, on_cluster)
        self._pulling: PullingAgent | None = None

    @classmethod
    def inherit(cls, setup: dict[str, Any], config: Resolved) -> "AsyncContext":
        """Build the context of a rank started by a launcher. The process has inherited the shared memory."""
        counters = SharedCounters.attach(config.distributed.size, config.log.window, setup["counters"])
        on_cluster = config.cluster == "gorila"
        return cls(
            setup["rank"], config.distributed, counters, setup["central"], setup["env_steps"],
            all_updates=config.gorila.updates if on_cluster else None, on_cluster=on_cluster,
        )  # fmt: skip

    @classmethod
    def connect(cls, store: Any, rank: int, config: Resolved, env_steps: int | None) -> "AsyncContext":
        """Build the context of a rank without a launcher: rank 0 creates the shared memory, the others open it.

        The memory is an anonymous memfd whose path rank 0 publishes in the store; the kernel frees it when the last
        process exits. Returns once all ranks have opened the memory; each rank then monitors the processes of the
        others. RunError after timeout_s; ConfigError if the ranks are not all on one machine.
        """
        g, files = config.distributed, ("counters", "central")
        if rank == 0:
            counters = SharedCounters.create(g.size, config.log.window)
            central = os.memfd_create("accel_rl_central", os.MFD_CLOEXEC)
            for name, fd in zip(files, (counters.fd, central), strict=True):
                store.set(name, address(fd))
        else:
            try:
                fds = [open_at(store.get(name).decode()) for name in files]
            except RunError as e:
                store.set(f"joined/{rank}", f"0 {e}")
                raise cls._not_one_machine(rank, str(e)) from e
            counters, central = SharedCounters.attach(g.size, config.log.window, fds[0]), fds[1]
        store.set(f"joined/{rank}", str(os.getpid()))
        pids = {}
        for r in range(g.size):
            try:
                store.wait([f"joined/{r}"], timedelta(seconds=g.timeout_s))
            except RuntimeError as e:
                why = " ".join(str(e).split())[:200]
                raise RunError(f"rank {r} has not joined within {g.timeout_s:g} s: {why}") from e
            pid, _, why = store.get(f"joined/{r}").decode().partition(" ")
            if why:
                raise cls._not_one_machine(r, why)
            pids[r] = int(pid)
        watch = Watch({r: pid for r, pid in pids.items() if r != rank})
        return cls(rank, g, counters, central, env_steps, watch, config.env_steps)

    @staticmethod
    def _not_one_machine(rank: int, why: str) -> ConfigError:
        return ConfigError(
            f"--update async: its ranks share one machine's memory, and rank {rank} does not see rank 0's ({why}); "
            "--nnodes 1, or --update all-reduce"
        )

    def state(self, checkpoints: Checkpoints) -> dict[str, Any] | None:
        """Load this rank's newest state; None if there is none. Ranks may have saved at different moments."""
        steps = checkpoints.steps()
        if not self._counters.begun and self.rank == 0:
            return None if self._from is None else load(checkpoints.path(self._from))
        if not steps:
            return None
        state = load(checkpoints.path(steps[-1]))
        if not self._on_cluster:
            return state
        self._counters.restore(self.rank, state["sampler"]["episodes"]["count"], state["learner"]["updates"])
        now = self._counters.env_steps()  # a cluster run can continue from an earlier moment than its ranks saved at
        return {**state, **{name: min(state[name], now) for name in ("env_steps", "logged_at")}}

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        c = self._config
        if c.local_updates > 1:
            return MultiStepAdam(
                flat, algo.build_optimizer, algo.config.max_grad_norm, c.chunks, self.rank, c.local_updates
            )
        return LockedChunks(flat, algo.build_optimizer, algo.config.max_grad_norm, c.chunks, self.rank)

    def opened(self, gradient_sync: GradientSync, env_steps: int) -> None:
        """Connect to the central parameters. When the run begins, rank 0 publishes its own as the central ones.

        RunError if rank 0 is lost or does not begin within START_S.
        """
        assert isinstance(gradient_sync, LockedChunks)
        first = self.rank == 0 and not self._counters.begun
        deadline = time.monotonic() + START_S
        while not (first or self._counters.begun):
            if time.monotonic() > deadline:
                raise RunError(f"rank {self.rank}: rank 0 has not begun within {START_S:g} s")
            if self._watch and 0 in self._watch.gone():
                raise RunError(f"rank {self.rank}: rank 0 is gone, and had not begun")
            time.sleep(0.01)
        gradient_sync.connect(
            Central(gradient_sync.parts, gradient_sync.states(), self._fd, create=first), publish=first
        )
        gradient_sync.warmup_updates = self._config.warmup_updates if not env_steps else 0
        if first:
            self._counters.begin(env_steps)
        self.communicator.begin(env_steps)

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        assert isinstance(gradient_sync, LockedChunks)
        if self._pulling is None or self._pulling.wrapped is not agent:
            self._pulling = PullingAgent(agent, gradient_sync, self._config.pull_steps)
        self._pulling.begin()
        return self._pulling

    def progress(self, share: float) -> float:
        return min(1.0, self._counters.all_updates / self._all_updates) if self._all_updates else share

    def clock(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        self._counters.add(self.rank, taken, updates, episodes)
        self._totals = self._counters.totals()
        return self._totals.env_steps

    def stops(self, asked: bool) -> bool:
        if self._watch and not asked and self._counters.env_steps() < self._until:
            self.lost = self._watch.gone()
        return asked or self._counters.stopped or bool(self.lost)

    def agreed(self, done: bool) -> bool:
        return done or self.rank > 0  # other ranks do not wait for rank 0's evaluation

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[tuple[float, int]], int, int]:
        return self._counters.recent(), self._totals.episodes, self._totals.updates

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Context for saving. Ranks save independently: parameters are central, all other state is the rank's own."""
        yield
