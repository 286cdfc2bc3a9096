"""What each command of the console script does."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from accel_rl.agents.base import Agent
from accel_rl.checkpoints import checkpoint
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.cli.arguments import parse, positionals, stdout
from accel_rl.config.train import TrainConfig, default_config
from accel_rl.envs.make import UNNAMED, check_switch, make_spec, played_by
from accel_rl.metrics.progress import human_score, human_time
from accel_rl.metrics.tensorboard import check_tensorboard
from accel_rl.runners.plan import RankPlan, RunPlan
from accel_rl.runners.ranks import sync_launcher as ranks
from accel_rl.runners.ranks import torchrun
from accel_rl.runners.ranks.rank_config import rank_config
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.trainer import Result, Trainer
from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError


def train(argv: list[str]) -> int:
    """accel-rl train ALGORITHM [options]"""
    config = parse_train(argv, "accel-rl train", "Train an agent.")
    return launch(config, Path(config.run_dir).expanduser() if config.run_dir else None)


def parse_train(argv: list[str], prog: str, does: str) -> TrainConfig:
    """The settings that `ALGORITHM [options]` gives. ConfigError."""
    words, options = positionals(argv, ["the algorithm (a2c, or module:Class)"], prog)
    algorithm = words[0] if words else "a2c"
    # --env CartPole-v1 reads better than --env.id; games have --game.
    options = ["--env.id" + o[5:] if o == "--env" or o.startswith("--env=") else o for o in options]
    config = parse(
        TrainConfig,
        options,
        f"{prog} {algorithm}",
        f"{does} Options of a group can be written without the group if the name is unique: --game pong, --envs 32, "
        "--learning-rate 1e-3.",
        default_config(algorithm),
    )
    if not config.env.game and not config.env.id:
        raise ConfigError("which environment? --game pong for Atari, --env CartPole-v1 for Gymnasium")
    return config


def launch(config: TrainConfig, path: Path | None = None) -> int:
    """Begin a run in a new folder and see it through; returns the exit code. ConfigError, RunError."""
    if (place := torchrun.place()) is not None:
        config = place.fit(config)
        check(config)
        mine = place.plan(config)
        check_memory(config, mine)
        return _reported(*torchrun.train(place, config, mine, path))
    path = path or RunFolder.default_path(config)
    RunFolder.check_new(path)
    check(config)
    config = dataclasses.replace(config.resolved(), run_dir=str(path))
    plan = RunPlan.resolve(config)
    check_memory(config, plan.ranks[0])
    return _run(config, plan, RunFolder.create(path, config), None)


def check(config: TrainConfig) -> None:
    """ConfigError for whatever can be known to be wrong before a process starts, but for the plan."""
    config.check()
    if config.log.tensorboard:
        check_tensorboard()


def check_memory(config: TrainConfig, plan: RankPlan) -> None:
    """ConfigError where what the learner remembers does not fit on its device."""
    config.algo.check_memory(make_spec(config.env, training=True), plan.device)


@dataclass(frozen=True)
class ResumeEnv:
    backend: str = ""
    """Play on with the other backend of an Atari game: ale, emulator, or auto. Default: the run's own."""


@dataclass(frozen=True)
class ResumeOptions:
    env_steps: OptionalCount = None
    """New length of the run in env steps, to go on beyond the old one."""
    checkpoint: str = ""
    """Go on from this checkpoint folder of the run instead of the newest."""
    cores: tuple[int, ...] | None = None
    """Cores to use this time; ranks get even parts of them, in this order. Default: the run's own --sampler.cores."""
    env: ResumeEnv = ResumeEnv()


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
            config,
            env_steps=chosen.env_steps,
            checkpoint=dataclasses.replace(config.checkpoint, interval=config.checkpoint_interval()),
            log=dataclasses.replace(config.log, interval=config.log_interval()),
        )
    played = config.env.backend
    config = dataclasses.replace(config, run_dir=str(run.path), env=played_by(config.env, chosen.env.backend))
    placed = config
    if chosen.cores is not None:
        placed = dataclasses.replace(config, sampler=dataclasses.replace(config.sampler, cores=chosen.cores))
    check(placed)
    plan = RunPlan.resolve(placed)
    check_memory(placed, plan.ranks[0])
    state = _state(run, chosen.checkpoint)
    if torchrun.place() is not None:
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
    if state is not None and state["env_steps"] >= config.env_steps:
        raise ConfigError(
            f"{run.path} is finished ({state['env_steps']:,} env steps); to go on: "
            f"accel-rl resume {run.path} --env-steps {2 * config.env_steps}"
        )
    run.write_json("config.json", config.to_dict())
    run.event(f"resumed at {state['env_steps'] if state else 0} env steps")
    if played != config.env.backend:
        run.event(f"played by {config.env.backend} from here on, by {played} before")
    if state is None:
        stdout(f"{run.path} has no checkpoint yet: starting from the beginning")
    return _run(placed, plan, run, state)


def _state(run: RunFolder, chosen: str = "") -> dict | None:
    if chosen:
        return checkpoint.load(Path(chosen).expanduser())
    latest = Checkpoints(run.path / "checkpoints").load_latest()
    return latest[1] if latest else None


def _run(config: TrainConfig, plan: RunPlan, run: RunFolder, state: dict | None) -> int:
    if config.distributed.several:
        stdout(
            f"{config.algorithm} on {config.env.game or config.env.id}: {config.env_steps:,} env steps on "
            f"{config.distributed.size} ranks, {config.distributed.update} -> {run.path}"
        )
        return _reported(config, run, ranks.train(config, plan, run, state["env_steps"] if state else None))
    config = rank_config(config, 0)
    trainer = Trainer(config, plan.ranks[0], run, state)
    grouping = plan.ranks[0].sampler.grouping
    stdout(
        f"{config.algorithm} on {trainer.spec.name}: {config.env_steps:,} env steps on {plan.ranks[0].device}, "
        f"{grouping.B} environments in {grouping.groups} groups on {grouping.workers} workers -> {run.path}"
    )
    return _reported(config, run, trainer.run())


def _reported(config: TrainConfig, run: RunFolder, result: Result | None) -> int:
    """The exit code; `result` None: another rank reports."""
    if result is None:
        return 0
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
    parallel: Count = 16
    """Environments that play side by side."""
    checkpoint: str = ""
    """Evaluate this checkpoint folder instead of the newest."""
    json: str = ""
    """Also write every score, with the protocol, to this file."""


def evaluate(argv: list[str]) -> int:
    """accel-rl evaluate RUN [options]"""
    import json

    from accel_rl.runners.evaluation import evaluate as play

    words, options = positionals(argv, ["the run folder"], "accel-rl evaluate")
    chosen = parse(EvaluateOptions, options, "accel-rl evaluate RUN", "Score a run's agent on fresh episodes.")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    config = dataclasses.replace(
        config,
        evaluation=dataclasses.replace(
            config.evaluation,
            episodes=chosen.episodes,
            steps=chosen.steps,
            greedy=chosen.greedy,
            parallel=chosen.parallel,
        ),
    )
    config, state, agent, plan = _trained(run, config, chosen.checkpoint, chosen.greedy)
    result = play(agent, config, plan, steps=chosen.steps, seed=chosen.seed)
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


@dataclass(frozen=True)
class WatchOptions:
    out: str = ""
    """File to write, .mp4 or .gif. Default: videos/ in the run folder."""
    steps: Count = 27_000
    """Longest episode in env steps."""
    seed: Count = 0
    """Seed of the environment and of the agent's choices."""
    greedy: bool = False
    """Act greedily instead of sampling from the policy."""
    checkpoint: str = ""
    """Show this checkpoint folder instead of the newest."""


def watch(argv: list[str]) -> int:
    """accel-rl watch RUN [options]"""
    from accel_rl.runners import video

    words, options = positionals(argv, ["the run folder"], "accel-rl watch")
    chosen = parse(WatchOptions, options, "accel-rl watch RUN", "Make a video of a run's agent playing one episode.")
    if chosen.out and Path(chosen.out).suffix not in (".mp4", ".gif"):
        raise ConfigError(f"--out {chosen.out}: must end in .mp4 or .gif")
    if chosen.steps < 1:
        raise ConfigError(f"--steps {chosen.steps}: must be at least 1")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    config, state, agent, _ = _trained(run, config, chosen.checkpoint, chosen.greedy)
    out = Path(chosen.out).expanduser() if chosen.out else video.default_path(run.path, state["env_steps"])
    episode = video.Episode(config, agent, chosen.seed, chosen.steps)
    n = video.write(episode.pictures(), out)
    stdout(f"{out}: {n} pictures, score {episode.score:g} in {episode.length:,} env steps")
    return 0


def _trained(
    run: RunFolder, config: TrainConfig, chosen: str, greedy: bool
) -> tuple[TrainConfig, dict, Agent, RankPlan]:
    """A run's agent as it is evaluated, and where it runs."""
    from accel_rl.runners.trainer import load_agent
    from accel_rl.system.process import tune_torch

    check(config)
    state = _state(run, chosen)
    if state is None:
        raise ConfigError(f"{run.path} has no checkpoint yet")
    plan = RankPlan.resolve(config)
    tune_torch(plan.placement.torch_threads)
    agent = load_agent(config, state, make_spec(config.env, training=True), plan.device)
    return config, state, agent.evaluating(greedy), plan


@dataclass(frozen=True)
class PlotOptions:
    out: str = ""
    """File to write. Default: curve.png in the folder of the run or sweep, or in the current one for several."""
    x: str = "env_steps"
    """Column of metrics.csv across: env_steps, wall_s ...; or minutes."""
    y: str = "score"
    """Column of metrics.csv up: score, eval_score, entropy ..."""


def plot(argv: list[str]) -> int:
    """accel-rl plot RUN [RUN ...] [options]"""
    from accel_rl.metrics.plot import draw, gather
    from accel_rl.report.runs import find_runs

    words, options = positionals(argv, ["a folder of a run or a sweep"], "accel-rl plot", many=True)
    chosen = parse(
        PlotOptions,
        options,
        "accel-rl plot RUN [RUN ...]",
        "Draw learning curves as a PNG: a panel for each game, a curve for each kind of run, with the spread over its "
        "seeds.",
    )
    folders = [Path(w).expanduser() for w in words]
    runs = find_runs(folders)
    for run in runs:
        RunFolder.open(run)
    curves = gather(runs, chosen.x, chosen.y)
    out = Path(chosen.out).expanduser() if chosen.out else (folders[0] if len(folders) == 1 else Path()) / "curve.png"
    if out.suffix not in (".png", ".pdf", ".svg"):
        raise ConfigError(f"--out {out}: must end in .png, .pdf or .svg")
    draw(curves, out, chosen.x, chosen.y)
    stdout(f"{out}: {', '.join(c.label for c in curves)}")
    return 0


def report(argv: list[str]) -> int:
    """accel-rl report RUNS [options]"""
    from accel_rl.report.report import ReportOptions, write_report
    from accel_rl.report.runs import read_csv, read_runs
    from accel_rl.report.statistics import check_rliable

    words, options = positionals(argv, [], "accel-rl report", many=True)
    chosen = parse(
        ReportOptions,
        options,
        "accel-rl report RUNS",
        "Tables and plots of runs (folders of runs, or of sweeps) beside what is published: one HTML page, and CSV.",
    )
    if not words and not chosen.csv:
        raise ConfigError("accel-rl report: a folder of runs is missing (or --csv FILE)")
    if chosen.reps < 1:
        raise ConfigError(f"--reps {chosen.reps}: must be at least 1")
    out = Path(chosen.out).expanduser()
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file")
    check_rliable()
    runs = read_runs([Path(w).expanduser() for w in words]) if words else []
    runs += [r for file in chosen.csv for r in read_csv(Path(file).expanduser())]
    files = write_report(runs, out, chosen)
    stdout(f"{files[0]}: {len(runs)} runs; {len(files) - 1} tables beside it as CSV")
    return 0


def doctor(argv: list[str]) -> int:
    """accel-rl doctor"""
    from accel_rl.cli.doctor import main

    return main(argv)


def games(argv: list[str]) -> int:
    """accel-rl games"""
    from accel_rl.envs.games_table import table

    if argv and argv[0] not in ("-h", "--help"):
        raise ConfigError(f"accel-rl games takes no arguments; got {argv[0]!r}")
    stdout("\n".join(table()))
    return 0
