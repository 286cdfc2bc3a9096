"""accel-rl resume RUN [options]"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from accel_rl.cli.arguments import parse, positionals, stdout
from accel_rl.cli.start import check, check_device, start
from accel_rl.cli.trained_agent import read_state
from accel_rl.config.train import TrainConfig
from accel_rl.envs.make import UNNAMED, check_switch, played_by
from accel_rl.runners.plan import RunPlan
from accel_rl.runners.ranks import torchrun
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.counts import OptionalCount
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class ResumeEnv:
    backend: str = ""
    """Switch the backend of an Atari game: ale, emulator or auto. Default: the run's backend."""


@dataclass(frozen=True)
class ResumeSampler:
    engine: Literal["", "workers", "in-process", "device"] = ""
    """Switch what steps the environments. To and from `device` only with --env.randomness counter. Default: the run's
    engine."""


@dataclass(frozen=True)
class ResumeOptions:
    env_steps: OptionalCount = None
    """New length of the run in env steps, to extend the run."""
    checkpoint: str = ""
    """Continue from this checkpoint folder of the run instead of the newest."""
    cores: tuple[int, ...] | None = None
    """Cores to use this time, divided evenly among the ranks in this order. Default: --sampler.cores of the run."""
    env: ResumeEnv = ResumeEnv()
    sampler: ResumeSampler = ResumeSampler()


def main(argv: list[str]) -> int:
    """accel-rl resume RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl resume")
    chosen = parse(ResumeOptions, options, "accel-rl resume RUN", "Continue a run, in the same folder and files.")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    if chosen.env_steps is not None:
        if chosen.env_steps < 1:
            raise ConfigError(f"--env-steps {chosen.env_steps}: must be at least 1")
        # the intervals stay those of the run as it was begun
        config = dataclasses.replace(
            config,
            env_steps=chosen.env_steps,
            checkpoint=dataclasses.replace(config.checkpoint, interval=config.checkpoint_interval()),
            log=dataclasses.replace(config.log, interval=config.log_interval()),
        )
    played = config.env.backend
    config = dataclasses.replace(config, run_dir=str(run.path), env=played_by(config.env, chosen.env.backend))
    if chosen.sampler.engine:
        sampler = dataclasses.replace(config.sampler, engine=chosen.sampler.engine)
        config = dataclasses.replace(config, sampler=sampler)
    placed = config
    if chosen.cores is not None:
        placed = dataclasses.replace(config, sampler=dataclasses.replace(config.sampler, cores=chosen.cores))
    check(placed)
    plan = RunPlan.resolve(placed)
    check_device(placed, plan.ranks[0])
    state = read_state(run, chosen.checkpoint)
    if torchrun.rank_info() is not None:
        raise ConfigError("resume with torchrun: give it the command that began the run, with its --run-dir")
    if state is not None:
        there = {**UNNAMED, **state["config"]["env"]}
        if (state["config"]["algorithm"], there | {"backend": config.env.backend}) != (
            config.algorithm,
            config.env.to_dict(),
        ):
            raise ConfigError(
                f"the checkpoint is of another run ({state['config']['algorithm']} on {state['config']['env']})"
            )
        played = there["backend"]
        if played != config.env.backend:
            check_switch(config.env, config.sampler.reset, state["sampler"]["envs"])
    if state is not None:
        _check_unfinished(run, config, state)
    run.write_json("config.json", config.to_dict())
    run.event(f"resumed at {state['env_steps'] if state else 0} env steps")
    if played != config.env.backend:
        run.event(f"played by {config.env.backend} from here on, by {played} before")
    if state is None:
        stdout(f"{run.path} has no checkpoint yet: starting from the beginning")
    return start(placed, plan, run, state)


def _check_unfinished(run: RunFolder, config: TrainConfig, state: dict[str, Any]) -> None:
    """Raise ConfigError if the checkpoint is at the end of the run. Updates, if given, are the length of the run."""
    if config.cluster == "gorila" and config.gorila.updates:
        if (updates := state["learner"]["updates"]) >= config.gorila.updates:
            raise ConfigError(
                f"{run.path} is finished ({updates:,} updates of --gorila.updates {config.gorila.updates})"
            )
    elif state["env_steps"] >= config.env_steps:
        raise ConfigError(
            f"{run.path} is finished ({state['env_steps']:,} env steps); to go on: "
            f"accel-rl resume {run.path} --env-steps {2 * config.env_steps}"
        )
