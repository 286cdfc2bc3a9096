"""Launcher of asynchronous ranks: a killed rank is replaced while the other ranks continue."""

import os
import sys
from collections.abc import Callable

from accel_rl.config.resolved import Resolved
from accel_rl.runners.plan import RunPlan
from accel_rl.runners.ranks.rank_process import Rank, finish, launch, raise_for, setup_of
from accel_rl.runners.ranks.shared_counters import SharedCounters
from accel_rl.runners.result import Result
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.signals import StopRequest
from accel_rl.system.errors import RunError

MAX_FAILED_STARTS = 3


class AsyncLauncher:
    """The rank processes of an asynchronous run on this machine, and their shared memory."""

    def __init__(self, config: Resolved, plan: RunPlan, run: RunFolder, env_steps: int | None):
        self._config, self._plan, self._run = config, plan, run
        self.counters = SharedCounters.create(config.distributed.size, config.log.window)
        self.central = os.memfd_create("accel_rl_central", os.MFD_CLOEXEC)
        self._setup = {
            "run": str(run.path.absolute()),
            "env_steps": env_steps,
            "counters": self.counters.fd,
            "central": self.central,
        }
        self._ranks: list[Rank] = []
        self.replaced = 0  # number of killed ranks that were replaced
        self._steps_at_start = [0] * config.distributed.size  # env steps of each rank when its process was started
        self._failed_starts = [0] * config.distributed.size  # consecutive starts of each rank without an env step

    def __enter__(self) -> "AsyncLauncher":
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self._ranks:
            rank.close()
        self.counters.close()
        os.close(self.central)

    def train(self, look: Callable[[], None] = lambda: None) -> Result:
        """Run all ranks to their end. Raises the error of a rank that fails or cannot be started.

        look: called every LOOK_S seconds meanwhile.
        """
        with StopRequest() as stop:
            for r in range(self._config.distributed.size):
                self._ranks.append(self._launch(r))
            return finish(self._ranks, stop, lambda rank: self._replace(rank, stop), look)

    def _launch(self, r: int) -> Rank:
        setup = {**self._setup, **setup_of(self._config, self._plan.ranks[r])}
        return launch(setup, (self.counters.fd, self.central))

    def _replace(self, rank: Rank, stop: StopRequest) -> None:
        """Start a new process for a killed rank, unless the run is ending. RunError."""
        r, steps = rank.index, self.counters.of_rank(rank.index)
        if (rank.code() or 0) >= 0:
            raise_for(rank)
        self._failed_starts[r] = 0 if steps > self._steps_at_start[r] else self._failed_starts[r] + 1
        ending = rank.ending()
        if self._failed_starts[r] >= MAX_FAILED_STARTS:
            raise RunError(f"{ending} before its first rollout, {MAX_FAILED_STARTS} times in a row")
        if r and (stop or self._ranks[0].code() == 0):  # the run is ending
            rank.failure_matters = False
            self._run.event(ending)
            return
        if stop:
            raise RunError(f"{ending} before it had saved a checkpoint")
        self._steps_at_start[r] = steps
        rank.close()
        self._ranks[r] = self._launch(r)
        self.replaced += 1
        line = f"{ending}: the other ranks continue, pid {self._ranks[r].process.pid} takes its place"
        self._run.event(line)
        print(line, file=sys.stderr, flush=True)
