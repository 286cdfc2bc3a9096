"""Trains a run to its end: settings are checked, the run is planned, its folder is created, and the plan is trained."""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accel_rl.api.preparation import check_machine, checked
from accel_rl.api.warm_start import initial_network
from accel_rl.envs.make import MOST_NAMED
from accel_rl.metrics.progress import tell
from accel_rl.planning.plan import RunPlan
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings import advice
from accel_rl.settings.resolved import Resolved
from accel_rl.settings.train import TrainConfig
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.text.output import open_standard_descriptors, print_text, steady_output
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.evaluation import Result
from accel_rl.training.observers import Observers


def begin(given: TrainConfig, path: Path | None) -> tuple[TrainConfig, RunFolder, Result | None]:
    """Under torchrun, start one rank of a run; only rank 0 returns a result. Raises ConfigError or RunError."""
    if "RANK" in os.environ:
        from accel_rl.ranks import torchrun

        if (info := torchrun.rank_info()) is not None:
            plan = info.plan(checked(info.fit(given)))
            check_machine(plan)
            begins = info.rank == 0 and not (path and (path / "config.json").exists())
            return torchrun.train(info, plan.config, path, initial_network(plan.rank_configs[0]) if begins else None)
    run, result = run_new(given, path)
    return given, run, result


def run_new(given: TrainConfig, path: Path | None, objects: Observers | None = None) -> tuple[RunFolder, Result]:
    """Raises ConfigError or RunError. `path` is the run's new folder, or None for the default name. `objects` are the
    run's callbacks and sinks, instead of new objects of the classes that the settings name."""
    if path is not None:
        RunFolder.check_new(path)
    config = checked(given)
    warnings = advice.lines(given, config)
    plan = RunPlan.resolve(config)
    check_machine(plan)
    network = initial_network(plan.rank_configs[0])
    plan = plan.in_folder(path or RunFolder.new_path(config))
    with _begun(plan.config) as run:
        for line in warnings:
            print_text(f"warning: {line}")
            run.event(line)
        if network is not None:
            network.place(run)
        return run, run_to_end(plan, run, None, objects)


@contextmanager
def _begun(config: Resolved) -> Iterator[RunFolder]:
    """A context that creates and locks the folder of a new run. If a ConfigError ends the run before training, the
    folder is removed. Raises RunError if the folder was moved or removed while the run began."""
    path = Path(config.run_dir)
    try:
        run = RunFolder.create(path, config)
        try:
            with run.locked(), steady_output(run.event):
                launches.record(run, env_steps=0)
                yield run
        except ConfigError:
            run.discard()
            raise
    except FileNotFoundError as e:
        if path.exists():
            raise
        raise RunError(f"{path} was moved or removed while the run began: begin the run again") from e


def run_to_end(plan: RunPlan, run: RunFolder, state: dict[str, Any] | None, objects: Observers | None = None) -> Result:
    """Train to the end of the run from a checkpoint's state, or from the beginning if `state` is None. `run_to_end`
    must be called within the context `steady_output`. The function `run_new` explains `objects`."""
    open_standard_descriptors()
    config, mode = plan.config, plan.config.mode
    what = f"{config.algorithm} on {config.env.label}"
    if mode.has_members:
        g = config.gorila
        length = f"{g.updates:,} updates" if g.updates else f"{config.env_steps:,} env steps"
        tell(f"{what}: {length} by {g.members} members and {counted(g.shards, 'shard')} -> {run.path}")
    elif line := _emulation(plan):
        tell(line)
    if mode.has_ranks:
        d = config.distributed
        tell(f"{what}: {config.env_steps:,} env steps on {d.size} ranks, {d.update} -> {run.path}")
    if not mode.is_alone:
        return importlib.import_module(mode.module).launch(plan, run, state, objects)
    config, rank = plan.rank_configs[0], plan.ranks[0]
    trainer = build_trainer(config, rank, run, state, observers=objects or Observers.of(config))
    tell(
        f"{config.algorithm} on {config.spec.name}: {config.env_steps:,} env steps on {rank.device}, "
        f"{rank.sampler.environments()} -> {run.path}",
    )
    return trainer.run()


def _emulation(plan: RunPlan) -> str:
    """A text about how the emulator plays the games, or "" if the emulator is not used or runs on a GPU, or if there
    are more than MOST_NAMED games."""
    env, on_device = plan.config.env, plan.ranks[0].sampler.on_device
    if not env.is_emulated or len(env.games) > MOST_NAMED or env.translate == "off" or on_device:
        return ""
    from accel_rl.emulator.translation import how_played

    return "; ".join(filter(None, map(how_played, env.games)))
