"""Seven commands act on a run or a model: resume, evaluate, watch, export, push, pull and starts."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from accel_rl.agents.agent import Agent, StickyRandomAgent
from accel_rl.api.export import export
from accel_rl.api.hub import pull, push
from accel_rl.api.options import EvaluateOptions, ExportOptions, ResumeOptions, WatchOptions
from accel_rl.api.resume import resume
from accel_rl.api.suite_models import run_path
from accel_rl.api.trained_agent import evaluate, trained_agent, watch
from accel_rl.cli.train_command import reported
from accel_rl.envs.start_points import NOTE
from accel_rl.metrics.progress import quiet_run
from accel_rl.parsing.arguments import command, parse, positionals, split, stdout
from accel_rl.parsing.help import HELP
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.changeable import CHANGEABLE, changed_settings, flag
from accel_rl.settings.flags import flags_of
from accel_rl.settings.resolved import Resolved, resolve
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.settings.trust import TrustOptions
from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError
from accel_rl.training.record_starts import KEEP, STICKY_RANDOM, record

RUN = ("the run folder",)
MAY_CHANGE = (
    "The resumed run may also change these settings, which the run folder records in launches.json: "
    f"{', '.join(map(flag, CHANGEABLE))}."
)


def resume_command(argv: list[str]) -> int:
    words, options = positionals(argv, RUN, "accel-rl resume")
    flags = flags_of(ResumeOptions)
    of_command, others = split(options, {*flags, *(f"--{name}" for name in flags.values()), *HELP})
    prog = "accel-rl resume RUN"
    chosen = parse(ResumeOptions, of_command, prog, f"Continue a run, in the same folder and files.\n\n{MAY_CHANGE}")
    run, config = RunFolder.open(Path(words[0]).expanduser(), chosen.trust)
    settings = changed_settings(config, parse(TrainConfig, others, prog, "", config, ResumeOptions())) if others else {}
    with quiet_run(chosen.quiet):
        result = resume(run, config, chosen, settings)
        return reported(RunFolder.open(run.path, chosen.trust)[1], run, result)


def evaluate_command(argv: list[str]) -> int:
    does = "Score the agent of a run, or of the suite (suite/ppo-breakout), on fresh episodes."
    (name,), chosen = command(EvaluateOptions, argv, "accel-rl evaluate RUN", does, RUN)
    run, config = RunFolder.open(run_path(name), chosen.trust)
    result, of_agent = evaluate(run, config, chosen)
    played_by = (
        "random actions at 10 Hz" if chosen.random else f"{config.algorithm} at {of_agent['env_steps']:,} env steps"
    )
    several = len(result.games) > 1
    extremes = "" if several else f"min {min(result.scores):g}, max {max(result.scores):g}, "
    stdout(f"{played_by}: {result.text} ({extremes}{sum(result.lengths):,} env steps)")
    if result.protocol:
        stdout("protocol: " + ", ".join(f"{k}={v}" for k, v in result.protocol.items()))
    return 0


def watch_command(argv: list[str]) -> int:
    does = "Make a video of one episode, played by the agent of a run or of the suite (suite/ppo-breakout)."
    (name,), chosen = command(WatchOptions, argv, "accel-rl watch RUN", does, RUN)
    chosen.check()
    run, config = RunFolder.open(run_path(name), chosen.trust)
    out, n, episode = watch(run, config, chosen)
    stdout(f"{out}: {n} pictures, score {episode.score:g} in {episode.length:,} env steps")
    return 0


def export_command(argv: list[str]) -> int:
    does = "Write the network of a run as a model that others can load."
    (folder,), chosen = command(ExportOptions, argv, "accel-rl export RUN", does, RUN)
    run, config = RunFolder.open(Path(folder).expanduser(), chosen.trust)
    out, about = export(run, config, chosen)
    evaluation = about["evaluation"]
    score = f", score {evaluation['score_mean']:.2f}" if evaluation else ", not evaluated"
    stdout(f"{out}: {config.algorithm} at {about['env_steps']:,} env steps{score}")
    name = quote(str(out))
    stdout(f"next:\n  accel-rl evaluate {name}\n  accel-rl push {name} NAME/MODEL    to a model hub")
    return 0


@dataclass(frozen=True)
class PushOptions:
    private: bool = False
    """Make the new model private on the hub."""


def push_command(argv: list[str]) -> int:
    words = ("the folder of a model (accel-rl export)", "NAME/MODEL on the hub, or a new folder")
    does = "Upload a model to a model hub. Needs the extra hub."
    (model, place), chosen = command(PushOptions, argv, "accel-rl push MODEL NAME/MODEL", does, words)
    stdout(push(Path(model).expanduser(), place, chosen.private))
    return 0


@dataclass(frozen=True)
class PullOptions:
    out: str = ""
    """Folder that is created for the model, by default models/NAME/MODEL."""


def pull_command(argv: list[str]) -> int:
    does = "Download a model from a model hub. Needs the extra hub."
    words = ("NAME/MODEL on the hub, or the folder of a model",)
    (place,), chosen = command(PullOptions, argv, "accel-rl pull NAME/MODEL", does, words)
    out = Path(chosen.out).expanduser() if chosen.out else Path("models") / place.strip("/.~")
    pull(place, out)
    name = quote(str(out))
    stdout(f"{out}\nnext:\n  accel-rl evaluate {name}\n  accel-rl watch {name}")
    return 0


@dataclass(frozen=True)
class StartsOptions(TrustOptions):
    out: str = ""
    """File of the start points, by default GAME.starts.json in the current folder."""
    points: Count = 100
    """Number of start points (Nair et al. 2015, section 5.2: 100)."""
    games: Count = 10
    """Number of games to play. The start points are drawn uniformly from all steps of these games."""
    steps: Count = 4_500
    """Maximum length of a game in agent steps. The default of 4,500 agent steps lasts 5 minutes of play."""
    seed: Count = 0
    """Seed of the recorded games and of the selection of start points."""
    greedy: bool = False
    """If a run's agent plays, act greedily instead of sampling from the policy."""
    best: bool = False
    """If a run's agent plays, use the network with the best evaluation instead of the newest checkpoint."""
    checkpoint: str = ""
    """If a run's agent plays, use this checkpoint folder instead of the newest checkpoint."""


def starts_command(argv: list[str]) -> int:
    does = (
        f"Record start points for evaluations ({NOTE}). With a game, sticky random play is recorded; with a run's "
        "folder, its agent plays. The same arguments give the same points."
    )
    (name,), chosen = command(StartsOptions, argv, "accel-rl starts GAME", does, ("the game, or a run folder",))
    is_run = Path(name).expanduser().is_dir()
    config, agent, policy = _agent_of_run(Path(name), chosen) if is_run else _random_play(name, chosen)
    if len(config.env.games) > 1:
        raise ConfigError(f"start points are of a single game, not of {config.env.game}")
    out = Path(chosen.out).expanduser() if chosen.out else Path(f"{config.env.game}.starts.json")
    if not out.parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}")
    points = record(
        config, agent, policy, points=chosen.points, games=chosen.games, steps=chosen.steps, seed=chosen.seed
    )
    points.save(out)
    frames = [points.frames(i) for i in range(len(points))]
    stdout(f"{out}: {len(points)} start points of {points.game}, at frames {min(frames):,} to {max(frames):,}")
    stdout(f"played by {policy}; {NOTE}")
    return 0


def _random_play(game: str, chosen: StartsOptions) -> tuple[Resolved, Agent, str]:
    for name in ("greedy", "best", "checkpoint"):
        if getattr(chosen, name):
            raise ConfigError(f"--{name} is for the folder of a run: {game!r} is none")
    default = default_config("dqn")
    config = resolve(dataclasses.replace(default, env=dataclasses.replace(default.env, game=game)))
    return config, StickyRandomAgent(config.spec.n_actions, KEEP), STICKY_RANDOM


def _agent_of_run(path: Path, chosen: StartsOptions) -> tuple[Resolved, Agent, str]:
    run, trained = RunFolder.open(path.expanduser(), chosen.trust)
    if not trained.env.game:
        raise ConfigError(f"{run.path} plays {trained.env.id}: start points are of Atari games")
    config, state, agent, _ = trained_agent(run, trained, chosen.checkpoint, chosen.greedy, chosen.best)
    return config, agent, f"{config.algorithm} after {state['env_steps']:,} env steps of training, seed {config.seed}"
