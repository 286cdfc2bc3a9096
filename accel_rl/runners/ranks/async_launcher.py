"""Ranks that do not wait for each other: one that is killed is replaced while the others go on."""

import os
import sys

from accel_rl.config.train import TrainConfig
from accel_rl.runners.plan import RunPlan
from accel_rl.runners.ranks.rank_process import Rank, finish, launch, raise_for, setup_of
from accel_rl.runners.ranks.shared_counters import SharedCounters
from accel_rl.runners.result import Result
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.signals import StopRequest
from accel_rl.system.errors import RunError

MAX_FAILED_STARTS = 3


class AsyncLauncher:
    """All ranks of an asynchronous run, and the memory that they share."""

    def __init__(self, config: TrainConfig, plan: RunPlan, run: RunFolder, env_steps: int | None):
        self._config, self._plan, self._run = config, plan, run
        self._board = SharedCounters.create(config.distributed.size, config.log.window)
        self._central = os.memfd_create("accel_rl_central", os.MFD_CLOEXEC)
        self._setup = {
            "run": str(run.path.absolute()),
            "env_steps": env_steps,
            "board": self._board.fd,
            "central": self._central,
        }
        self._ranks: list[Rank] = []
        self._began = [0] * config.distributed.size  # a rank's env steps when its process was started
        self._failed = [0] * config.distributed.size  # starts in a row that led to nothing

    def train(self) -> Result:
        """RunError, ConfigError: of a rank that ended otherwise than by a signal, or that cannot be started."""
        try:
            with StopRequest() as stop:
                for r in range(self._config.distributed.size):
                    self._ranks.append(self._launch(r))
                return finish(self._ranks, stop, lambda rank: self._replace(rank, stop))
        finally:
            for rank in self._ranks:
                rank.close()
            self._board.close()
            os.close(self._central)

    def _launch(self, r: int) -> Rank:
        setup = {**self._setup, **setup_of(self._config, self._plan.ranks[r])}
        return launch(setup, (self._board.fd, self._central))

    def _replace(self, rank: Rank, stop: StopRequest) -> None:
        """In the list of ranks, in place."""
        r, steps = rank.index, self._board.of_rank(rank.index)
        if (rank.code() or 0) >= 0:
            raise_for(rank)
        self._failed[r] = 0 if steps > self._began[r] else self._failed[r] + 1
        how = rank.how()
        if self._failed[r] >= MAX_FAILED_STARTS:
            raise RunError(f"{how} before its first rollout, {MAX_FAILED_STARTS} times in a row")
        if r and (stop or self._ranks[0].code() == 0):  # the run is ending
            rank.missed = False
            self._run.event(how)
            return
        if stop:
            raise RunError(f"{how} before it had saved")
        self._began[r] = steps
        rank.close()
        self._ranks[r] = self._launch(r)
        line = f"{how}: the others went on, pid {self._ranks[r].process.pid} takes its place"
        self._run.event(line)
        print(line, file=sys.stderr, flush=True)
