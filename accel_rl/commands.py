"""What each command of the console script does."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from accel_rl.arguments import parse, positionals, stdout
from accel_rl.config import Count, OptionalCount, TrainConfig, default_config
from accel_rl.errors import ConfigError
from accel_rl.metrics.progress import human_score, human_time
from accel_rl.metrics.tensorboard import check_tensorboard
from accel_rl.runners import checkpoint
from accel_rl.runners.build import plan, resolve_device
from accel_rl.runners.checkpoint import Checkpoints
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.trainer import Result, Trainer


def train(argv: list[str]) -> int:
    """accel-rl train ALGORITHM [options]"""
    words, options = positionals(argv, ["the algorithm (a2c, or module:Class)"], "accel-rl train")
    algorithm = words[0] if words else "a2c"
    # --env CartPole-v1 reads better than --env.id; games have --game.
    options = ["--env.id" + o[5:] if o == "--env" or o.startswith("--env=") else o for o in options]
    config = parse(
        TrainConfig, options, f"accel-rl train {algorithm}", "Train an agent. Options of a group can be written without "
        "it where the name is unique: --game pong, --envs 32, --learning-rate 1e-3.", default_config(algorithm),
    )
    if not config.env.game and not config.env.id:
        raise ConfigError("which environment? --game pong for Atari, --env CartPole-v1 for Gymnasium")
    path = Path(config.run_dir).expanduser() if config.run_dir else RunFolder.default_path(config)
    config = dataclasses.replace(config, run_dir=str(path))
    check(config)
    RunFolder.check_new(path)
    return _run(config, RunFolder.create(path, config), None)


def check(config: TrainConfig) -> None:
    """Everything that can be known to be wrong before a process starts. ConfigError."""
    config.check()
    if config.log.tensorboard:
        check_tensorboard()
    plan(config, resolve_device(config.device))


@dataclass(frozen=True)
class ResumeOptions:
    env_steps: OptionalCount = None
    """New length of the run in env steps, to go on beyond the old one."""
    checkpoint: str = ""
    """Go on from this checkpoint folder of the run instead of the newest."""


def resume(argv: list[str]) -> int:
    """accel-rl resume RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl resume")
    chosen = parse(ResumeOptions, options, "accel-rl resume RUN", "Go on with a run, in the same folder and files.")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    if chosen.env_steps is not None:
        if chosen.env_steps < 1:
            raise ConfigError(f"--env-steps {chosen.env_steps}: must be at least 1")
        # the intervals stay those of the run as it was begun
        config = dataclasses.replace(
            config, env_steps=chosen.env_steps,
            checkpoint=dataclasses.replace(config.checkpoint, interval=config.checkpoint_interval()),
            log=dataclasses.replace(config.log, interval=config.log_interval()),
        )
    config = dataclasses.replace(config, run_dir=str(run.path))
    check(config)
    state = _state(run, chosen.checkpoint)
    if state is not None and (state["config"]["algorithm"], state["config"]["env"]) != (config.algorithm, config.env.to_dict()):
        raise ConfigError(f"the checkpoint is of another run ({state['config']['algorithm']} on {state['config']['env']})")
    if state is not None and state["env_steps"] >= config.env_steps:
        raise ConfigError(
            f"{run.path} is finished ({state['env_steps']:,} env steps); to go on: "
            f"accel-rl resume {run.path} --env-steps {2 * config.env_steps}"
        )
    run.write_json("config.json", config.to_dict())
    run.event(f"resumed at {state['env_steps'] if state else 0} env steps")
    if state is None:
        stdout(f"{run.path} has no checkpoint yet: starting from the beginning")
    return _run(config, run, state)


def _state(run: RunFolder, chosen: str = "") -> dict | None:
    if chosen:
        return checkpoint.load(Path(chosen).expanduser())
    latest = Checkpoints(run.path / "checkpoints").load_latest()
    return latest[1] if latest else None


def _run(config: TrainConfig, run: RunFolder, state: dict | None) -> int:
    trainer = Trainer(config, run, state)
    p = trainer.placement
    stdout(
        f"{config.algorithm} on {trainer.spec.name}: {config.env_steps:,} env steps on {p.device}, {config.sampler.envs} "
        f"environments in {trainer.grouping.groups} groups on {trainer.grouping.workers} workers -> {run.path}"
    )
    result = trainer.run()
    _report(config, run, result)
    return result.exit_code


def _report(config: TrainConfig, run: RunFolder, result: Result) -> None:
    """What was done, and what to do next."""
    state = "stopped" if result.exit_code else "finished"
    stdout(
        f"{state} at {result.env_steps:,} env steps after {human_time(result.wall_s)} "
        f"({result.env_steps / max(result.wall_s, 1e-9):,.0f} steps/s); online score {human_score(result.score)} over "
        f"the last {config.log.window} episodes"
    )
    if result.evaluation:
        e = result.evaluation
        stdout(f"evaluation: score {e.mean:.2f} +- {e.std:.2f} over {len(e.scores)} episodes")
    stdout("next:")
    stdout(f"  accel-rl plot {run.path}      the learning curve as a picture")
    if config.env.game:
        stdout(f"  accel-rl watch {run.path}     a video of the agent")
    more = "" if result.exit_code else f" --env-steps {2 * config.env_steps}"
    stdout(f"  accel-rl resume {run.path}{more}    go on training")


@dataclass(frozen=True)
class EvaluateOptions:
    episodes: Count = 30
    """Episodes to play (0: as many as --steps allow)."""
    steps: Count = 125_000
    """Env steps, where episodes is 0."""
    seed: Count = 0
    """Seed of the environments and of the agent's choices."""
    greedy: bool = False
    """Act greedily instead of sampling from the policy."""
    envs: Count = 16
    """Environments that play side by side."""
    checkpoint: str = ""
    """Evaluate this checkpoint folder instead of the newest."""
    json: str = ""
    """Also write every score, with the protocol, to this file."""


def evaluate(argv: list[str]) -> int:
    """accel-rl evaluate RUN [options]"""
    import json

    from accel_rl.runners.evaluation import evaluate as play
    from accel_rl.runners.trainer import load_agent

    words, options = positionals(argv, ["the run folder"], "accel-rl evaluate")
    chosen = parse(EvaluateOptions, options, "accel-rl evaluate RUN", "Score a run's agent on fresh episodes.")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    config = dataclasses.replace(
        config, evaluation=dataclasses.replace(
            config.evaluation, episodes=chosen.episodes, steps=chosen.steps, greedy=chosen.greedy, envs=chosen.envs
        )
    )
    check(config)
    state = require_state(run, chosen.checkpoint)
    device = resolve_device(config.device)
    placement, _ = plan(config, device)
    from accel_rl.envs.make import make_spec
    from accel_rl.process import tune_torch

    tune_torch(placement.torch_threads)
    agent = load_agent(config, state, make_spec(config.env, training=True), device).evaluating(chosen.greedy)
    result = play(agent, config, placement, steps=chosen.steps, seed=chosen.seed)
    assert result is not None
    stdout(
        f"{config.algorithm} at {state['env_steps']:,} env steps: score {result.mean:.2f} +- {result.std:.2f} over "
        f"{len(result.scores)} episodes (min {min(result.scores):g}, max {max(result.scores):g}, "
        f"{sum(result.lengths):,} env steps)"
    )
    if result.protocol:
        stdout("protocol: " + ", ".join(f"{k}={v}" for k, v in result.protocol.items()))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({"env_steps": state["env_steps"], **result.to_dict()}, indent=1) + "\n")
    return 0


def require_state(run: RunFolder, chosen: str = "") -> dict:
    state = _state(run, chosen)
    if state is None:
        raise ConfigError(f"{run.path} has no checkpoint yet")
    return state


def watch(argv: list[str]) -> int:
    """accel-rl watch RUN [options]"""
    from accel_rl.runners.video import main

    return main(argv)


def plot(argv: list[str]) -> int:
    """accel-rl plot RUN [RUN ...] [options]"""
    from accel_rl.metrics.plot import main

    return main(argv)


def doctor(argv: list[str]) -> int:
    """accel-rl doctor"""
    from accel_rl.doctor import main

    return main(argv)


def games(argv: list[str]) -> int:
    """accel-rl games"""
    from accel_rl.envs.games_table import main

    return main(argv)
