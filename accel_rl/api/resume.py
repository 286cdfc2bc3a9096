"""Continues a run from one of its checkpoints."""

import dataclasses
import json
from collections.abc import Mapping
from shlex import quote
from types import MappingProxyType
from typing import Any

from accel_rl.api.launch import run_to_end
from accel_rl.api.options import ResumeOptions
from accel_rl.api.preparation import check_machine, checked
from accel_rl.api.trained_agent import read_state
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.checkpoints.model_folder import ModelFolder
from accel_rl.metrics.nested import flat
from accel_rl.metrics.progress import tell
from accel_rl.planning.plan import RunPlan
from accel_rl.ranks import torchrun
from accel_rl.run import launches
from accel_rl.run.rewind import rewind
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.changeable import CHANGEABLE, flag, with_changes
from accel_rl.settings.resolved import Resolved
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.types import values_in
from accel_rl.text.errors import ConfigError
from accel_rl.text.output import steady_output
from accel_rl.training.evaluation import Result
from accel_rl.training.observers import Observers

NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


def resume(
    run: RunFolder,
    begun: TrainConfig,
    changes: ResumeOptions,
    settings: Mapping[str, Any] = NO_SETTINGS,
    objects: Observers | None = None,
) -> Result:
    """The run began with the settings `begun`. `settings` maps names of changed settings to new values
    (`changed_settings`). Raises ConfigError or RunError. `objects` are the callbacks and sinks of the run, instead of
    those that `begun` names."""
    if ModelFolder(run.path).is_there:
        raise ConfigError(f"{run.path} holds an exported model, which cannot be trained further; resume its run")
    with run.locked(), steady_output(run.event):
        return _resume(run, begun, changes, settings, objects)


def _resume(
    run: RunFolder, begun: TrainConfig, changes: ResumeOptions, settings: Mapping[str, Any], objects: Observers | None
) -> Result:
    changed = with_changes(_changed(run, begun, changes), settings)
    own_cores = changed.sampler.cores
    cores = changes.cores if changes.cores is not None else own_cores
    placed = checked(dataclasses.replace(changed, sampler=dataclasses.replace(changed.sampler, cores=cores)))
    config = dataclasses.replace(placed, sampler=dataclasses.replace(placed.sampler, cores=own_cores))
    plan = RunPlan.resolve(placed)
    check_machine(plan)
    state = read_state(run, changes.checkpoint)
    recorded = _recorded_changes(run, config)
    if torchrun.rank_info() is not None:
        raise ConfigError("resume with torchrun: give it the command that began the run, with its --run-dir")
    if state is not None:
        _check_state(run, plan.rank_configs[0], state, recorded)
        _check_unfinished(run, config, state)
    run.write_json("config.json", config.to_dict())
    launches.record(run, state["env_steps"] if state else 0, recorded)
    run.event(f"resumed at {state['env_steps'] if state else 0} env steps")
    for line in (*_change_lines(recorded), *_schedule_lines(config, recorded)):
        tell(line)
        run.event(line)
    if state is not None:
        rewind(run, state["env_steps"], chosen=bool(changes.checkpoint))
    if changes.device:
        run.event(f"continued on {config.device}")
    if state is None:
        tell(f"{run.path} has no checkpoint yet: starting from the beginning")
    return run_to_end(plan, run, state, objects)


def _changed(run: RunFolder, config: TrainConfig, changes: ResumeOptions) -> TrainConfig:
    if changes.env_steps is not None:
        if changes.env_steps < 1:
            raise ConfigError(f"--env-steps {changes.env_steps}: must be at least 1")
        # The interval between rows of metrics does not change, although its default depends on the run's length.
        config = dataclasses.replace(
            config,
            env_steps=changes.env_steps,
            log=dataclasses.replace(config.log, interval=config.log_interval()),
        )
    config = dataclasses.replace(config, run_dir=str(run.path))
    if changes.device:
        distributed = dataclasses.replace(config.distributed, gpus="")
        config = dataclasses.replace(config, device=changes.device, distributed=distributed)
    if changes.sampler.engine:
        sampler: Any = dataclasses.replace(config.sampler, engine=changes.sampler.engine)
        config = dataclasses.replace(config, sampler=sampler)
    return config


def _recorded_changes(run: RunFolder, config: Resolved) -> dict[str, tuple[Any, Any]]:
    """The settings of the run's config.json that differ from `config`, as {name: (old value, new value)}."""
    # trust=True is safe, because the user already trusted the code that `config` names.
    begun = RunFolder.open(run.path, trust=True)[1]
    before, now = (dict(flat(c.to_dict())) for c in (begun, config))
    # A resume that changes the run's length stores the default interval as a number, which is not a change.
    kept = {"log.interval": begun.log_interval()}
    return {
        name: (before.get(name), value)
        for name, value in now.items()
        if name != "run_dir" and json.dumps(before.get(name)) != json.dumps(value) != json.dumps(kept.get(name))
    }


def _change_lines(changes: Mapping[str, tuple[Any, Any]]) -> list[str]:
    return [f"{flag(name)} is {new} from here on, {old} before" for name, (old, new) in changes.items()]


def _schedule_lines(config: Resolved, changes: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """Lines that report at which env step linear schedules end, if the run's length is changed. Return [] if the run
    has no linear schedules."""
    linear = [name for name, value in values_in(config.algo, "algo.").items() if value == "linear"]
    if "env_steps" not in changes or not linear or "schedule_steps" in changes:
        return []
    before, _ = changes["env_steps"]
    if config.schedule_steps:
        return [f"{', '.join(map(flag, linear))}: ends at {config.schedule_steps:,} env steps, as before"]
    return [
        f"{', '.join(map(flag, linear))}: ends at {config.env_steps:,} env steps instead of {before:,}; "
        f"--schedule-steps {before} would end it as before"
    ]


def _check_state(
    run: RunFolder, config: Resolved, state: dict[str, Any], changes: Mapping[str, tuple[Any, Any]]
) -> None:
    """Raise ConfigError if the checkpoint belongs to another run. `config` has the settings of rank 0. `changes` maps
    the settings that this resume changes to (old value, new value); these changes are not recorded yet."""
    saved, of_rank = (dict(flat(x)) for x in (state["config"], config.identity()))
    for name in saved:
        # The checkpoint of another version of accel_rl may have settings that this version does not have.
        if name in of_rank and saved[name] != of_rank[name]:
            earlier = launches.earlier_values(run, name)
            if name in CHANGEABLE and (earlier is None or saved[name] in (*earlier, changes.get(name, (None,))[0])):
                continue
            raise ConfigError(
                f"the checkpoint is of another run ({flag(name)} {saved[name]}, this run has {of_rank[name]})"
            )


def _check_unfinished(run: RunFolder, config: Resolved, state: dict[str, Any]) -> None:
    """If the checkpoint is at the end of the run, remove the temporary files and unused segments of the checkpoints,
    and raise ConfigError."""
    steps, updates = state["env_steps"], config.updates
    if updates:
        if (done := state["learner"]["updates"]) < updates:
            return
        line = f"{done:,} updates of --gorila.updates {updates})"
    elif steps < config.env_steps:
        return
    else:
        longer = f"{quote(str(run.path))} --env-steps {2 * max(config.env_steps, steps)}"
        line = f"{steps:,} env steps); to go on: accel-rl resume {longer}"
    Checkpoints(run.path / "checkpoints").clean()
    raise ConfigError(f"{run.path} is finished ({line}")
