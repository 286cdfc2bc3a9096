"""The command accel-rl train ALGORITHM [options] trains a run."""

import importlib.util
import math
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.metrics.progress import human_score, human_time
from accel_rl.parsing.arguments import parse, positionals, stdout, value_of
from accel_rl.settings import advice
from accel_rl.settings.presets import on_gorila, with_preset
from accel_rl.settings.registry import NAMES_WITH_REPLAY
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.settings.trust import code_names
from accel_rl.text.counts import counted, parse_seconds
from accel_rl.text.errors import ConfigError
from accel_rl.text.output import steady_output

if TYPE_CHECKING:
    from accel_rl.run.run_folder import RunFolder
    from accel_rl.training.evaluation import Result

MAIN = {
    "--env.game": "--game",
    "--env.id": "--env",
    "--env-steps": "--env-steps",
    "--seed": "--seed",
    "--run-dir": "--run-dir",
    "--sampler.envs": "--envs",
    "--algo.learning-rate": "--learning-rate",
    "--device": "--device",
    "--distributed.ranks": "--ranks",
    "--wandb": "--wandb",
}
"""The options that the help describes first, in their short form."""


def main(argv: list[str]) -> int:
    argv, budget = split_budget(argv)
    does = "Train an agent. --budget 1h (30s, 10m) in place of --env-steps trains for a time."
    config = parse_train(argv, "accel-rl train", does, ["--budget"])
    path = Path(config.run_dir).expanduser() if config.run_dir else None
    if budget is not None:
        from accel_rl.api.budget import with_budget

        config = with_budget(config, *budget, path)
    return launch(config, path)


def split_budget(argv: list[str]) -> tuple[list[str], tuple[str, float] | None]:
    """The other arguments, and the text and the seconds of --budget. Raises ConfigError."""
    rest, text, words = list[str](), None, iter(argv)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag == "--budget":
            text = value if equals else next(words, "")
        else:
            rest.append(word)
    if text is None:
        return rest, None
    if (steps := value_of(rest, "--env-steps")) is not None:
        raise ConfigError(f"--budget {text} and --env-steps {steps}: give one of the two")
    try:
        return rest, (text, parse_seconds(text))
    except ValueError as e:
        raise ConfigError(f"--budget: {e}") from e


def parse_train(argv: list[str], prog: str, does: str, similar: Iterable[str] = ()) -> TrainConfig:
    """Raises ConfigError. `similar` are flags that the command has in addition to those of `accel-rl train`, for
    suggestions in error messages."""
    if len(argv) > 1 and not any(word.startswith("-") for word in argv[:2]):
        raise ConfigError(
            f"{prog}: unexpected argument {argv[1]!r}: a game is --game pong, an environment --env CartPole-v1"
        )
    words, options = positionals(argv, ["the algorithm (a2c, or module:Class)"], prog)
    algorithm = words[0] if words else "a2c"
    # `--env CartPole-v1` is short for --env.id, which names a Gymnasium environment. An Atari game is named by --game.
    options = ["--env.id" + o[5:] if o == "--env" or o.startswith("--env=") else o for o in options]
    default = default_config(algorithm)
    if preset := value_of(options, "--preset"):
        default = with_preset(default, preset)
    if value_of(options, "--cluster") == "gorila":
        default = on_gorila(default, is_atari=value_of(options, "--env.id") is None)
    config = parse(
        TrainConfig,
        options,
        f"{prog} {algorithm}",
        f"{does} Options of a group can be written without the group if the name is unique: --game pong, --envs 32, "
        "--learning-rate 1e-3.",
        default,
        similar,
        MAIN,
        _modes(default, options),
    )
    if not config.env.game and not config.env.id:
        raise ConfigError("the environment is missing: --game pong for Atari, --env CartPole-v1 for Gymnasium")
    return config


def _modes(default: TrainConfig, options: list[str]) -> dict[str, str]:
    """{group of options without an effect: condition under which it would have one}"""
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
    with steady_output():
        _report(config, run, result)
    return result.exit_code


def _report(config: TrainConfig, run: "RunFolder", result: "Result") -> None:
    is_finished = not result.exit_code and (result.env_steps >= config.env_steps or bool(config.gorila.updates))
    state = "finished" if is_finished else "stopped"
    online = f"online score {human_score(result.score)} over the last {config.log.window} episodes"
    if math.isnan(result.score):
        each = result.env_steps // max(1, config.sampler.envs * config.distributed.size)
        online = f"no online score: no episode has ended in about {each:,} steps of each environment"
    stdout(
        f"{state} at {result.env_steps:,} env steps after {human_time(result.wall_s)} "
        f"({result.env_steps / max(result.wall_s, 1e-9):,.0f} steps/s); {online}"
    )
    if result.evaluation:
        e = result.evaluation
        stdout(f"evaluation: score {e.mean:.2f} +- {e.std:.2f} over {counted(len(e.scores), 'episode')}")
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
    if config.env.game or importlib.util.find_spec("pygame"):
        return ""
    from accel_rl.envs.gymnasium import renderer_install

    install = renderer_install(config.env.id)
    return f", after {install}" if install else ""
