"""torchrun, or another launcher that sets its environment variables, starts ranks on one machine or several.

    | torchrun --nproc-per-node 2 -m accel_rl train a2c --game pong --run-dir runs/pong

If a rank dies, torchrun's agent on the rank's machine ends the machine's other ranks. The agent sends SIGTERM to the
ranks of its machine, and SIGKILL 30 seconds later. At SIGTERM, asynchronous ranks save a checkpoint. Asynchronous ranks
on other machines save a checkpoint when they notice that the rank is lost, and all ranks end. With torchrun's
--max-restarts, every agent then restarts its ranks, which continue from their checkpoints.
"""

import os
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.distributed.patient_store import PatientStore
from accel_rl.distributed.process_group import JOIN, choose_interface, environment_store
from accel_rl.planning.plan import RankPlan, RunPlan
from accel_rl.planning.rank_config import rank_config
from accel_rl.processes.process import die_with_parent
from accel_rl.ranks import async_context, sync_context
from accel_rl.run import launches
from accel_rl.run.rewind import rewind
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import Resolved, resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.trust import code_names
from accel_rl.text.errors import ConfigError, exit_with
from accel_rl.training.evaluation import Result
from accel_rl.training.initial_network import InitialNetwork

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True)
class RankInfo:
    """The rank of this process and the number of ranks, both in the whole run and on this machine."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    max_restarts: int

    def fit(self, config: TrainConfig) -> TrainConfig:
        """The settings with torchrun's number of ranks. Raises ConfigError if the settings name a different
        number of ranks."""
        g = config.distributed
        if g.ranks not in (None, self.size):
            raise ConfigError(f"--ranks {g.ranks}: torchrun has started {self.size}; leave it out")
        if self.max_restarts and not config.run_dir:
            raise ConfigError("--run-dir: needed with torchrun --max-restarts, so that a restart finds the run")
        return replace(config, distributed=replace(g, ranks=self.size))

    def plan(self, config: Resolved) -> RunPlan:
        """A `RunPlan` that contains only this rank."""
        of_rank = rank_config(config, self.rank, self.local_rank, self.local_size)
        return RunPlan(config, (of_rank,), (RankPlan.resolve(of_rank, self.rank, self.size),))


def rank_info() -> RankInfo | None:
    """Read the rank's number from the environment variables, or return None if the variables are not set. Raises
    ConfigError for values that are not numbers."""
    if not all(name in os.environ for name in _NEEDED):
        return None
    e = os.environ
    try:
        rank, size = int(e["RANK"]), int(e["WORLD_SIZE"])
        local, locals_ = int(e.get("LOCAL_RANK", rank)), int(e.get("LOCAL_WORLD_SIZE", size))
        return RankInfo(rank, size, local, locals_, int(e.get("TORCHELASTIC_MAX_RESTARTS", 0)))
    except ValueError as error:
        raise ConfigError(f"RANK, WORLD_SIZE, LOCAL_RANK ... in the environment: {error}") from error


def train(
    info: RankInfo, config: Resolved, path: Path | None, network: InitialNetwork | None = None
) -> tuple[Resolved, RunFolder, Result | None]:
    """Run this rank's part of a new run, or resume an existing run. Only rank 0 returns a result. An existing
    run is trained with its own settings instead of `config`. On rank 0, `network` is the network with which a new run
    begins."""
    die_with_parent(os.getppid())  # If torchrun's agent process is killed, its ranks also end.
    store, rank = environment_store(), info.rank
    answers = PatientStore(store, JOIN.total_seconds())
    if rank == 0:
        answers.set("path", str((path or RunFolder.new_path(config)).absolute()))
    path = Path(answers.get("path"))
    with nullcontext() if rank else RunFolder(path).locked():
        if rank == 0:
            run, begun, steps = _opened(path, config, network)
            answers.set("steps", str(steps))
        else:
            steps = int(answers.get("steps"))
            run, saved = RunFolder.open(path, code_names(config.to_dict()))
            begun = resolve(saved)
        plan = info.plan(begun)
        of_rank = plan.rank_configs[0]
        common = of_rank, plan.ranks[0], run.of_rank(rank), steps if steps >= 0 else None
        if begun.distributed.is_async:
            result = async_context.train(*common, *async_context.connect(answers, rank, of_rank))
        else:
            choose_interface(os.environ["MASTER_ADDR"], one_machine=info.local_size == info.size)
            result = sync_context.train(*common, store, info.local_size, exit_with)
        return begun, run, None if rank else result


def _opened(path: Path, config: Resolved, network: InitialNetwork | None) -> tuple[RunFolder, Resolved, int]:
    """Create or open the run folder, and return the folder, its settings, and the env steps of its checkpoint or -1."""
    if not (path / "config.json").exists():
        config = replace(config, run_dir=str(path))
        run = RunFolder.create(path, config)
        launches.record(run, env_steps=0)
        if network is not None:
            network.place(run)
        return run, config, -1
    run, saved = RunFolder.open(path, code_names(config.to_dict()))
    begun = resolve(saved)
    recorded, wanted = ((c.algorithm, c.distributed.size, c.distributed.update) for c in (begun, config))
    if recorded != wanted:
        raise ConfigError(
            f"{path} holds a run of {recorded[0]} on {recorded[1]} ranks, {recorded[2]}; choose another folder"
        )
    steps = Checkpoints(path / "checkpoints").steps()
    if steps and steps[-1] >= begun.env_steps:
        raise ConfigError(f"{path} is finished ({steps[-1]:,} env steps); choose another --run-dir")
    launches.record(run, steps[-1] if steps else 0)
    if steps or (path / "metrics.csv").exists():
        run.event(f"went on at {steps[-1] if steps else 0} env steps, started by torchrun")
    if steps:
        rewind(run, steps[-1], chosen=False)
    return run, begun, steps[-1] if steps else -1
