"""Launcher of several ranks, a process each. Synchronous ranks are started and ended together.

Source: Stooke & Abbeel 2018, section 4.2.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.config.resolved import Resolved
from accel_rl.runners.plan import RunPlan
from accel_rl.runners.ranks.async_launcher import AsyncLauncher
from accel_rl.runners.ranks.rank_process import LOOK_S, Rank, RankLost, finish, launch, raise_for, setup_of
from accel_rl.runners.result import Result
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.signals import StopRequest
from accel_rl.system.errors import RunError

SETTLE_S = 0.5  # a rank that notices a killed rank may end before the killed one is reported


class Launcher(Protocol):
    """Starts ranks in its context, and ends them."""

    def __enter__(self) -> "Launcher": ...

    def __exit__(self, *_: object) -> None: ...

    def train(self) -> Result: ...


def folder_of(run: RunFolder, rank: int) -> RunFolder:
    """Return the folder of a rank's part of the checkpoints; for rank 0 the run folder itself."""
    if rank == 0:
        return run
    folder = RunFolder(run.path / "ranks" / str(rank))
    folder.path.mkdir(parents=True, exist_ok=True)
    return folder


def train(config: Resolved, plan: RunPlan, run: RunFolder, env_steps: int | None) -> Result:
    """Train from the checkpoint at env_steps, or from the beginning (None). RunError, naming the rank at fault."""
    if config.distributed.is_async:
        with AsyncLauncher(config, plan, run, env_steps) as launcher:
            return launcher.train()
    return train_with_restarts(config, run, env_steps, lambda steps: SyncLauncher(config, plan, run, steps))


def train_with_restarts(
    config: Resolved, run: RunFolder, env_steps: int | None, build: Callable[[int | None], Launcher]
) -> Result:
    """Train, and start all ranks again from the newest checkpoint if one is lost, up to --distributed.max-restarts.

    build: builds a launcher that begins at these env steps. RunError, naming the rank at fault.
    """
    restarts = 0
    while True:
        with build(env_steps) as launcher:
            try:
                return launcher.train()
            except RankLost as lost:
                if restarts >= config.distributed.max_restarts:
                    raise RunError(str(lost)) from lost
                line = str(lost)
        restarts += 1
        steps = Checkpoints(run.path / "checkpoints").steps()
        env_steps = steps[-1] if steps else None
        line += f"; restart {restarts} of {config.distributed.max_restarts} from {env_steps or 0:,} env steps"
        run.event(line)
        print(line, file=sys.stderr, flush=True)


class SyncLauncher:
    """The rank processes of a synchronous run. They connect through an anonymous file. If one is lost, all end."""

    def __init__(self, config: Resolved, plan: RunPlan, run: RunFolder, env_steps: int | None):
        self.config, self.plan, self.run = config, plan, run
        self._setup = {"run": str(run.path.absolute()), "env_steps": env_steps, "size": config.distributed.size}
        self._ranks: list[Rank] = []

    def __enter__(self) -> "SyncLauncher":
        fds = tuple(os.memfd_create(f"accel_rl_{name}", os.MFD_CLOEXEC) for name in ("store", "gradients"))
        try:
            setup = {**self._setup, "store": fds[0], "gradients": fds[1]}
            self._ranks = [launch({**setup, **setup_of(self.config, plan)}, fds) for plan in self.plan.ranks]
        finally:
            for fd in fds:
                os.close(fd)
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self._ranks:
            if rank.code() is None:
                rank.process.kill()
        for rank in self._ranks:
            rank.close()

    def train(self) -> Result:
        """Run all ranks to their end. RankLost, RunError, ConfigError."""
        with StopRequest() as stop:
            return finish(self._ranks, stop, self._fail)

    def _fail(self, rank: Rank) -> None:
        """Raise the error of a killed rank if there is one, else of `rank`, which may only have noticed the loss."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline and not any((r.code() or 0) < 0 for r in self._ranks):
            time.sleep(LOOK_S)
        raise_for(next((r for r in self._ranks if (r.code() or 0) < 0), rank))
