"""Ranks that torchrun (or anything that sets its environment variables) has started, on one machine or several.

`torchrun --nproc-per-node 2 -m accel_rl train a2c --game pong --run-dir runs/pong`

Where a rank dies, its agent ends its others, asynchronous ones, too: SIGTERM, which lets these save, and SIGKILL 30
seconds later; the ranks of other agents see it, save if they are asynchronous, and end. With torchrun's --max-restarts
every agent then starts its ranks anew, and they go on from their checkpoints.
"""

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.config.train import TrainConfig
from accel_rl.data.shared_memory import address, open_at
from accel_rl.distributed.process_group import environment_store, part
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.ranks.asynchronous import AsyncContext
from accel_rl.runners.ranks.rank_config import rank_config
from accel_rl.runners.ranks.sync_launcher import folder_of
from accel_rl.runners.ranks.synchronous import SyncContext, met
from accel_rl.runners.result import Result
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.trainer import Trainer
from accel_rl.system.errors import ConfigError, RunError
from accel_rl.system.process import die_with_parent

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True)
class Place:
    """Of this process among the ranks."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    max_restarts: int

    def fit(self, config: TrainConfig) -> TrainConfig:
        """The configuration with this many ranks. ConfigError for one that wants others."""
        g = config.distributed
        if g.ranks not in (None, self.size):
            raise ConfigError(f"--ranks {g.ranks}: torchrun has started {self.size}; leave it out")
        if self.max_restarts and not config.run_dir:
            raise ConfigError("--run-dir: needed with torchrun --max-restarts, so that a restart finds the run")
        return replace(config, distributed=replace(g, ranks=self.size))

    def config(self, config: TrainConfig) -> TrainConfig:
        """This rank's own settings."""
        return rank_config(config, self.rank, self.local_rank, self.local_size)

    def plan(self, config: TrainConfig) -> RankPlan:
        """Plan this rank. ConfigError."""
        return RankPlan.resolve(self.config(config), self.rank, self.size)


def place() -> Place | None:
    """None where this process was not started so. ConfigError for numbers that are none."""
    if not all(name in os.environ for name in _NEEDED):
        return None
    e = os.environ
    try:
        rank, size = int(e["RANK"]), int(e["WORLD_SIZE"])
        local, locals_ = int(e.get("LOCAL_RANK", rank)), int(e.get("LOCAL_WORLD_SIZE", size))
        return Place(rank, size, local, locals_, int(e.get("TORCHELASTIC_MAX_RESTARTS", 0)))
    except ValueError as error:
        raise ConfigError(f"RANK, WORLD_SIZE, LOCAL_RANK ... in the environment: {error}") from error


def train(
    place: Place, config: TrainConfig, plan: RankPlan, path: Path | None
) -> tuple[TrainConfig, RunFolder, Result | None]:
    """Run this rank's part of a run, or go on with a run that exists. Only rank 0 returns a result.

    plan: of `config`. If the run exists, its own settings count, and are planned anew if they differ.
    """
    die_with_parent(os.getppid())  # an agent that is killed leaves nothing behind
    given, (store, rank, size) = config, environment_store()
    if rank == 0:
        path = (path or RunFolder.default_path(config)).absolute()
        store.set("path", str(path))
    path = Path(store.get("path").decode())
    if rank == 0:
        run, config, steps = _opened(path, config)
        store.set("steps", str(steps))
    else:
        steps = int(store.get("steps").decode())
        run, config = RunFolder.open(path)
    of_rank, folder = place.config(config), folder_of(run, rank)
    if replace(given.resolved(), run_dir=config.run_dir) != config:
        plan = place.plan(config)
    checkpoints = Checkpoints(folder.path / "checkpoints")
    if config.distributed.update == "async":
        free = AsyncContext.meet(store, rank, of_rank, steps if steps >= 0 else None)
        result = Trainer(of_rank, plan, folder, free.state(checkpoints), free).run()
        if free.lost:
            gone = ", ".join(map(str, free.lost))
            raise RunError(f"rank {rank}: rank {gone} is gone; stopped at {result.env_steps:,} env steps, and saved")
        return config, run, result if rank == 0 else None
    state = load(checkpoints.path(steps)) if steps >= 0 else None
    with met(of_rank, plan.device, store, rank, size, place.local_size) as group:
        group.shared = _gradients(store, group)
        result = Trainer(of_rank, plan, folder, state, group).run()
    part(store, rank, size, config.distributed.timeout_s)
    return config, run, result if rank == 0 else None


def _gradients(store: Any, group: SyncContext) -> int | None:
    """A file for the gradients where all ranks, of however many agents, are one machine's; else None."""
    fd = None
    if group.rank == 0:
        fd = os.memfd_create("accel_rl_gradients", os.MFD_CLOEXEC)
        store.set("gradients", address(fd))
    else:
        with contextlib.suppress(RunError):  # another machine's: over the network, then
            fd = open_at(store.get("gradients").decode())
    return fd if group.communicator.all_reduce_min(int(fd is not None)) else None


def _opened(path: Path, config: TrainConfig) -> tuple[RunFolder, TrainConfig, int]:
    """The run folder, new or gone on with -> (folder, configuration, env steps of its checkpoint or -1)."""
    if not (path / "config.json").exists():
        config = replace(config.resolved(), run_dir=str(path))
        return RunFolder.create(path, config), config, -1
    run, begun = RunFolder.open(path)
    there, wanted = ((c.algorithm, c.distributed.size, c.distributed.update) for c in (begun, config))
    if there != wanted:
        raise ConfigError(f"{path} holds a run of {there[0]} on {there[1]} ranks, {there[2]}; choose another folder")
    steps = Checkpoints(path / "checkpoints").steps()
    if steps and steps[-1] >= begun.env_steps:
        raise ConfigError(f"{path} is finished ({steps[-1]:,} env steps); choose another --run-dir")
    run.event(f"went on at {steps[-1] if steps else 0} env steps, started by torchrun")
    return run, begun, steps[-1] if steps else -1
