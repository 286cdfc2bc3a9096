"""Checks a run's settings, and trains the run to its end."""

import dataclasses
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from accel_rl.api.warm_start import absolute, initial_network
from accel_rl.envs.make import MOST_NAMED
from accel_rl.machine import hardware
from accel_rl.metrics.progress import tell
from accel_rl.metrics.sinks import check_tensorboard
from accel_rl.metrics.wandb import check_wandb
from accel_rl.planning.plan import RankPlan, RunPlan
from accel_rl.planning.plan_report import check_memory
from accel_rl.planning.rank_config import rank_config
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.advice import clamped, inactive, other_network, warning
from accel_rl.settings.resolved import Resolved, resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.text.output import open_standard_descriptors, print_text, steady_output
from accel_rl.training import observers
from accel_rl.training.evaluation import Result
from accel_rl.training.learner import build_algorithm
from accel_rl.training.observers import Observers
from accel_rl.training.seeds import own_generator
from accel_rl.training.trainer import Trainer


def checked(given: TrainConfig) -> Resolved:
    """Raises ConfigError for impossible settings. The plan of the run checks cores and GPUs later."""
    config = resolve(given)
    if config.log.tensorboard:
        check_tensorboard()
    check_wandb(config.wandb)
    observers.check(config)
    if config.mode.over_ray:
        importlib.import_module(config.mode.module).check(config)
    return dataclasses.replace(config, init=absolute(config.init))


def check_device(config: Resolved, plan: RankPlan) -> None:
    """Raise ConfigError if the network does not fit the observations, if the learner does not fit in the memory of its
    device, or if games cannot be emulated on the device."""
    if plan.sampler.on_device and plan.device.startswith("cuda"):
        from accel_rl.emulator.device import cuda

        cuda.check(plan.device)
    _check_network(config, plan.device)
    config.algo.check_spec(config.spec, plan.device)


def _check_network(config: Resolved, device: str) -> None:
    """Raise ConfigError if the network cannot be built, or does not fit in the device's memory. The check builds the
    network without memory for its parameters, except for a user's module."""
    try:
        with own_generator("cpu", config.seed), torch.device("meta"):
            algo = build_algorithm(rank_config(config, 0), config.spec, "meta")
    except ConfigError:
        raise
    except Exception as e:  # Any other error is ignored here, because the run raises it later.
        if "overflow" in str(e):
            raise ConfigError(f"the network is too large: {' '.join(str(e).split())}") from e
        return
    # Each parameter needs at least 12 bytes: float32 numbers for the parameter, its gradient, and the optimizer's
    # state.
    need, free = 12 * sum(p.numel() for p in algo.agent.model.parameters()), hardware.free_memory(device)
    if need > free:
        raise ConfigError(
            f"the network and its optimizer need {need / 2**30:.1f} GiB on {device}, where {free / 2**30:.1f} GiB are "
            "free: use a smaller network"
        )


def begin(given: TrainConfig, path: Path | None) -> tuple[TrainConfig, RunFolder, Result | None]:
    """Under torchrun, start one rank of a run; only rank 0 returns a result. Raises ConfigError or RunError."""
    if "RANK" in os.environ:
        from accel_rl.ranks import torchrun

        if (info := torchrun.rank_info()) is not None:
            config = checked(info.fit(given))
            plan = info.plan(config)
            check_device(config, plan)
            begins = info.rank == 0 and not (path and (path / "config.json").exists())
            return torchrun.train(info, config, plan, path, initial_network(config) if begins else None)
    run, result = run_new(given, path)
    return given, run, result


def run_new(given: TrainConfig, path: Path | None, objects: Observers | None = None) -> tuple[RunFolder, Result]:
    """Raises ConfigError or RunError. `path` is the run's new folder, or None for the default name. `objects` are the
    run's callbacks and sinks, instead of new objects of the classes that the settings name."""
    if path is not None:
        RunFolder.check_new(path)
    config = checked(given)
    lines = [*filter(None, [warning(given), other_network(given, config)]), *inactive(given, config), *clamped(config)]
    plan = RunPlan.resolve(config)
    check_device(config, plan.ranks[0])
    if not config.mode.over_ray:
        check_memory(config, plan)
    network = initial_network(config)
    path = path or RunFolder.new_path(config)
    config = dataclasses.replace(config, run_dir=str(path))
    with _in_place(path):
        run = RunFolder.create(path, config)
        try:
            with run.locked(), steady_output(run.event):
                launches.record(run, env_steps=0)
                for line in lines:
                    print_text(f"warning: {line}")
                    run.event(line)
                if network is not None:
                    network.place(run)
                # The run folder was moved, so the launch was recorded in a new folder with the old name.
                if not (path / "config.json").exists():
                    run.discard()
                    raise RunError(_gone(path))
                return run, run_to_end(config, plan, run, None, objects)
        except ConfigError:  # Nothing has been trained.
            run.discard()
            raise


@contextmanager
def _in_place(path: Path) -> Iterator[None]:
    """Raises RunError if the run folder was moved or removed before training began."""
    try:
        yield
    except FileNotFoundError as e:
        if path.exists():
            raise
        raise RunError(_gone(path)) from e


def _gone(path: Path) -> str:
    return f"{path} was moved or removed while the run began: begin the run again"


def _emulation(config: Resolved, plan: RunPlan) -> str:
    """How the emulator plays the games, or "" if the emulator is not used or runs on a GPU, and for many games."""
    env, on_device = config.env, plan.ranks[0].sampler.on_device
    if not env.is_emulated or len(env.games) > MOST_NAMED or env.translate == "off" or on_device:
        return ""
    from accel_rl.emulator.translation import how_played

    return "; ".join(filter(None, map(how_played, env.games)))


def run_to_end(
    config: Resolved, plan: RunPlan, run: RunFolder, state: dict[str, Any] | None, objects: Observers | None = None
) -> Result:
    """Train to the end of the run from a checkpoint's state, or from the beginning if `state` is None. The caller has
    entered `steady_output`. The function `run_new` explains `objects`."""
    open_standard_descriptors()
    mode, what = config.mode, f"{config.algorithm} on {config.env.label}"
    if mode.has_members:
        g = config.gorila
        length = f"{g.updates:,} updates" if g.updates else f"{config.env_steps:,} env steps"
        shards = counted(g.shards, "shard")
        tell(f"{what}: {length} by {g.members} members and {shards} -> {run.path}")
    elif line := _emulation(config, plan):
        tell(line)
    if mode.has_ranks:
        d = config.distributed
        tell(f"{what}: {config.env_steps:,} env steps on {d.size} ranks, {d.update} -> {run.path}")
    if not mode.is_alone:
        return importlib.import_module(mode.module).launch(config, plan, run, state, objects)
    config = rank_config(config, 0)
    trainer = Trainer(config, plan.ranks[0], run, state, observers=objects or Observers.of(config))
    tell(
        f"{config.algorithm} on {trainer.spec.name}: {config.env_steps:,} env steps on {plan.ranks[0].device}, "
        f"{plan.ranks[0].sampler.environments()} -> {run.path}",
    )
    return trainer.run()
