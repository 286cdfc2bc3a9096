"""Trains a run with the options of accel-rl train."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.metrics.progress import human_score, human_time, is_quiet, quiet_run
from accel_rl.parsing.arguments import parse, positionals, split, stdout, value_of
from accel_rl.settings import advice
from accel_rl.settings.config_file import read_json
from accel_rl.settings.flags import flags_of
from accel_rl.settings.presets import with_chosen
from accel_rl.settings.registry import ALGORITHMS, NAMES_WITH_REPLAY
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.settings.trust import TrustOptions, check_trust, code_names
from accel_rl.text.counts import parse_seconds
from accel_rl.text.errors import ConfigError
from accel_rl.text.output import steady_output

if TYPE_CHECKING:
    from accel_rl.run.run_folder import RunFolder
    from accel_rl.training.evaluation import Result

MAIN = {
    "--env.game": "--game",
    "--env.id": "--env",
    "--env-steps": "--env-steps",
    "--budget": "--budget",
    "--seed": "--seed",
    "--run-dir": "--run-dir",
    "--sampler.envs": "--envs",
    "--algo.learning-rate": "--learning-rate",
    "--device": "--device",
    "--distributed.ranks": "--ranks",
    "--wandb": "--wandb",
    "--config": "--config",
    "--quiet": "--quiet",
}
"""Maps the options that the help describes first to their short forms."""


@dataclass(frozen=True)
class TrainOptions(TrustOptions):
    """Options of `accel-rl train` that are not settings of a run."""

    budget: str = ""
    """Train for a time in place of --env-steps, such as 30s, 10m or 1.5h."""
    config: str = ""
    """The config.json of a run, or the run's folder, whose settings are the defaults. Further options override settings
    of config.json. With --config, the algorithm can be omitted."""
    quiet: bool = False
    """Print only warnings and errors."""


def train(argv: list[str]) -> int:
    """Returns the exit code. Raises ConfigError."""
    if argv[0].startswith("-") and value_of(argv, "--config") is None:
        named = next((f"comes first: accel-rl train {word} ..." for word in argv if word in ALGORITHMS), "is missing")
        raise ConfigError(f"accel-rl train: the algorithm {named}")
    mine, argv = split(argv, flags_of(TrainOptions))
    chosen = parse(TrainOptions, mine, "accel-rl train", "")
    budget = seconds_of(chosen.budget, argv) if value_of(mine, "--budget") is not None else None
    if value_of(argv, "--run-dir") == "":
        raise ConfigError("--run-dir '': must be the name of a folder; is a variable unset?")
    config = parse_train(argv, "accel-rl train", "Train an agent.", chosen)
    path = Path(config.run_dir).expanduser() if config.run_dir else None
    with quiet_run(chosen.quiet):
        if budget is not None:
            from accel_rl.api.budget import with_budget

            config = with_budget(config, chosen.budget, budget, path)
        return launch(config, path)


def seconds_of(budget: str, argv: list[str]) -> float:
    """The value of --budget in seconds. Raises ConfigError."""
    if (steps := value_of(argv, "--env-steps")) is not None:
        raise ConfigError(f"--budget {budget} and --env-steps {steps}: give one of the two")
    try:
        return parse_seconds(budget)
    except ValueError as e:
        raise ConfigError(f"--budget: {e}") from e


def from_file(chosen: TrainOptions, argv: list[str]) -> TrainConfig:
    """The settings in the file --config, without the run's folder. A user's code that the file names is trusted only if
    `argv` also names it. Raises ConfigError."""
    file = Path(chosen.config).expanduser()
    if not file.exists():
        raise ConfigError(f"--config {file}: there is no such file")
    try:
        values = read_json(file / "config.json" if file.is_dir() else file)
        check_trust(code_names(values), chosen.trust or argv)
        config = replace(TrainConfig.from_dict(values), run_dir="")
    except ConfigError as e:
        raise ConfigError(f"--config {chosen.config}: {e}") from e
    if argv and argv[0] != config.algorithm and not argv[0].startswith("-"):
        raise ConfigError(f"--config {chosen.config}: its algorithm is {config.algorithm}, and not {argv[0]}")
    return config


def parse_train(argv: list[str], prog: str, does: str, chosen: TrainOptions | None = None) -> TrainConfig:
    """`chosen` are the options of `accel-rl train` that are not settings. Raises ConfigError."""
    if len(argv) > 1 and not any(word.startswith("-") for word in argv[:2]):
        raise ConfigError(
            f"{prog}: unexpected argument {argv[1]!r}: a game is --game pong, an environment --env CartPole-v1"
        )
    words, options = positionals(argv, [], prog, many=True)
    # `--env CartPole-v1` is short for --env.id, which names a Gymnasium environment. An Atari game is named by --game.
    options = ["--env.id" + o[5:] if o == "--env" or o.startswith("--env=") else o for o in options]
    default = from_file(chosen, argv) if chosen and chosen.config else default_config(words[0])
    preset, cluster, env = (value_of(options, flag) for flag in ("--preset", "--cluster", "--env.id"))
    default = with_chosen(default, preset, cluster, is_atari=env is None)
    config = parse(
        TrainConfig,
        options,
        f"{prog} {default.algorithm}",
        f"{does} Options of a group can be written without the group if the name is unique: --game pong, --envs 32, "
        "--learning-rate 1e-3.",
        default,
        chosen,
        MAIN,
        _modes(default, options),
    )
    if not config.env.game and not config.env.id:
        raise ConfigError("the environment is missing: --game pong for Atari, --env CartPole-v1 for Gymnasium")
    return config


def _modes(default: TrainConfig, options: list[str]) -> dict[str, str]:
    """{group of options that now have no effect: condition under which they have an effect}"""
    flags = {option.partition("=")[0] for option in options}
    cluster = value_of(options, "--cluster")
    result = {}
    if not isinstance(default.algo, ReplayAlgorithmConfig):
        result["secondary"] = f"with {NAMES_WITH_REPLAY}"
    if cluster is None and not flags & {"--ranks", "--distributed.ranks", "--gpus", "--distributed.gpus"}:
        result["distributed"] = "with --ranks or --gpus"
    if cluster != "gorila":
        result["gorila"] = "with --cluster gorila"
    return result


def launch(config: TrainConfig, path: Path | None = None) -> int:
    """Returns the exit code. Raises ConfigError or RunError."""
    # The training code is imported here, so that help and error messages appear without the delay of the import.
    from accel_rl.api.launch import begin

    return reported(*begin(config, path))


def reported(config: TrainConfig, run: "RunFolder", result: "Result | None") -> int:
    """Returns the exit code. `result` is None if another rank reports the result."""
    if result is None:
        return 0
    if is_quiet():
        return result.exit_code
    with steady_output():
        _report(config, run, result)
    return result.exit_code


def _report(config: TrainConfig, run: "RunFolder", result: "Result") -> None:
    is_finished = not result.exit_code and (result.env_steps >= config.env_steps or bool(config.gorila.updates))
    state = "finished" if is_finished else "stopped"
    of_score = " % of human" if len(config.env.games) > 1 else ""
    online = f"online score {human_score(result.score)}{of_score} over the last {config.window} episodes"
    if math.isnan(result.score):
        each = result.env_steps // max(1, config.sampler.envs * config.distributed.size)
        of_game = " of some game" if of_score else ""
        online = f"no online score: no episode{of_game} has ended in about {each:,} steps of each environment"
    stdout(
        f"{state} at {result.env_steps:,} env steps after {human_time(result.wall_s)} "
        f"({result.env_steps / max(result.wall_s, 1e-9):,.0f} steps/s); {online}"
    )
    if result.evaluation:
        stdout(f"evaluation: {result.evaluation.text}")
    if line := advice.limit(config, result.shares):
        stdout(line)
    trust = " --trust" if code_names(config.to_dict()) else ""
    path = quote(str(run.path))
    stdout("next:")
    if not result.env_steps:
        stdout(f"  accel-rl resume {path}{trust}    train from the beginning")
        return
    stdout(f"  accel-rl plot {path}      the learning curve as a picture")
    stdout(f"  accel-rl watch {path}{trust}     a video of the agent{_renderer(config)}")
    more = "" if not is_finished else f" --env-steps {2 * config.env_steps}"
    stdout(f"  accel-rl resume {path}{more}{trust}    continue training")


def _renderer(config: TrainConfig) -> str:
    """How to install the missing package that renders a Gymnasium environment, or "" if none is missing."""
    from accel_rl.envs.gymnasium import missing_renderer

    install = missing_renderer(config.env.id)
    return f", after {install}" if install else ""
