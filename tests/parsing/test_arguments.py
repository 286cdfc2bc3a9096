"""Flags and the configuration that they set."""

import dataclasses
import json
from dataclasses import dataclass, field

import pytest

from accel_rl.cli.main import main
from accel_rl.parsing.arguments import parse, positionals
from accel_rl.settings.flags import complete, flags_of
from accel_rl.settings.outputs import CheckpointConfig, LogConfig
from accel_rl.settings.registry import find_algorithm
from accel_rl.settings.sampler_config import SamplerConfig
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.text.counts import parse_count
from accel_rl.text.errors import ConfigError

DEFAULT = default_config("a2c")


@dataclass(frozen=True)
class Left:
    rate: float = 1.0
    only_left: int = 0
    greedy: bool = False


@dataclass(frozen=True)
class Right:
    rate: float = 2.0
    fast: bool = True


@dataclass(frozen=True)
class Both:
    left: Left = field(default_factory=Left)
    right: Right = field(default_factory=Right)
    seed: int = 0
    strict: bool = False


def read(*argv: str, cls=Both, default=None):
    return parse(cls, list(argv), "prog", "what it does", default)


def train(*argv: str) -> TrainConfig:
    return read(*argv, cls=TrainConfig, default=DEFAULT)


def error_of(call, *args, **kwargs) -> str:
    with pytest.raises(ConfigError) as e:
        call(*args, **kwargs)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_every_flag_has_its_bare_name():
    assert flags_of(Both) == {
        "--left.rate": "rate",
        "--left.only-left": "only-left",
        "--left.greedy": "greedy",
        "--right.rate": "rate",
        "--right.fast": "fast",
        "--seed": "seed",
        "--strict": "strict",
    }


def test_the_default_decides_which_fields_a_part_has():
    assert "--algo.gae-lambda" in flags_of(TrainConfig, DEFAULT)
    assert "--algo.gae-lambda" not in flags_of(TrainConfig)


@pytest.mark.parametrize(
    ("given", "full"),
    [
        (["--only-left", "3"], ["--left.only-left", "3"]),
        (["--only_left=3"], ["--left.only-left=3"]),
        (["--left.only_left", "3"], ["--left.only-left", "3"]),
        (["--seed", "1", "--left.rate=2"], ["--seed", "1", "--left.rate=2"]),
        (["--greedy"], ["--left.greedy"]),
        (["--no-greedy"], ["--left.no-greedy"]),
        (["--no-fast", "--no-strict"], ["--right.no-fast", "--no-strict"]),
        (["--left.no-greedy"], ["--left.no-greedy"]),
        (["--help", "-h", "word", "-1"], ["--help", "-h", "word", "-1"]),
        (["--only-left=a=b"], ["--left.only-left=a=b"]),
    ],
)
def test_unique_names_are_completed(given, full):
    assert complete(given, flags_of(Both)) == full


def test_an_ambiguous_name_says_which_there_are():
    assert error_of(read, "--rate", "1") == "--rate is ambiguous; allowed: --left.rate, --right.rate"


@pytest.mark.parametrize(
    ("given", "near"), [("--left.rat", "--left.rate"), ("--sed", "--seed"), ("--gredy", "--greedy")]
)
def test_an_unknown_name_says_the_nearest(given, near):
    message = error_of(read, given, "1")
    assert message.startswith(f"unknown option {given}; nearest: ")
    assert near in message.partition("nearest: ")[2].split(", ")


def test_an_unknown_name_near_nothing():
    assert error_of(read, "--zzzzzzzz") == "unknown option --zzzzzzzz; see --help"


def test_values_arrive():
    got = read("--only-left", "3", "--right.rate", "0.5", "--no-fast", "--greedy", "--seed", "7")
    assert got == Both(Left(only_left=3, greedy=True), Right(rate=0.5, fast=False), seed=7)
    assert read() == Both()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--seed", "many"], "--seed"),
        (["--seed"], "--seed"),
        (["--no-seed"], "--no-seed"),
        (["word"], "word"),
    ],
)
def test_every_mistake_is_one_line(argv, says):
    assert says in error_of(read, *argv)


def test_help_ends_the_program_well(capsys):
    with pytest.raises(SystemExit) as e:
        read("--help")
    assert e.value.code in (0, None)
    assert "--left.rate" in capsys.readouterr().out


def test_leading_words():
    assert positionals(["run", "--seed", "1"], ["run_dir"], "prog") == (["run"], ["--seed", "1"])
    assert positionals(["a", "b", "--x"], ["runs"], "prog", many=True) == (["a", "b"], ["--x"])
    assert positionals(["--help"], ["run_dir"], "prog") == ([], ["--help"])
    assert error_of(positionals, ["--seed", "1"], ["run_dir"], "prog") == "prog: run_dir is missing"
    assert "'b'" in error_of(positionals, ["a", "b"], ["run_dir"], "prog")


def test_training_flags():
    got = train("--game", "pong", "--env-steps", "1e6", "--cores", "0", "1", "--no-strict", "--sampler.reset=wait")
    assert got == dataclasses.replace(
        DEFAULT,
        env=dataclasses.replace(DEFAULT.env, game="pong"),
        env_steps=1_000_000,
        sampler=dataclasses.replace(DEFAULT.sampler, cores=(0, 1), reset="wait"),
    )
    message = error_of(train, "--interval", "3")
    assert all(f"--{part}.interval" in message for part in ("evaluation", "checkpoint", "log"))
    assert "offline" in error_of(train, "--wandb", "of")
    assert "no whole number" in error_of(train, "--env-steps", "1.5")
    assert "--sampler.workers" in error_of(train, "--workers", "two")


@pytest.mark.parametrize(
    ("text", "n"), [("20000", 20000), ("1_000_000", 10**6), ("1e6", 10**6), ("-3", -3), ("9007199254740993", 2**53 + 1)]
)
def test_counts(text, n):
    got = parse_count(text)
    assert got == n and isinstance(got, int)


@pytest.mark.parametrize("text", ["1.5", "inf", "nan", "", "two", "1e-3"])
def test_no_counts(text):
    with pytest.raises(ValueError):
        parse_count(text)


def test_a_configuration_survives_json():
    config = train("--game", "breakout", "--cores", "0", "2", "--workers", "None", "--learning-rate", "1e-3")
    back = TrainConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert back == config
    assert type(back.algo) is type(DEFAULT.algo) and back.sampler.cores == (0, 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [({"sed": 1}, ("sed", "nearest: ", "seed")), ({"sampler": {"env": 4}}, ("sampler.env", "nearest: ", "envs"))],
)
def test_unknown_fields_of_a_configuration(change, says):
    message = error_of(TrainConfig.from_dict, {**DEFAULT.to_dict(), **change})
    assert all(s in message for s in says), message


@pytest.mark.parametrize(
    ("config", "flag"),
    [
        (TrainConfig(env_steps=0), "--env-steps 0"),
        (TrainConfig(seed=-1), "--seed -1"),
        (TrainConfig(sampler=SamplerConfig(envs=0)), "--sampler.envs 0"),
        (TrainConfig(sampler=SamplerConfig(timeout_s=float("nan"))), "--sampler.timeout-s nan"),
        (TrainConfig(checkpoint=CheckpointConfig(keep=0)), "--checkpoint.keep 0"),
        (TrainConfig(log=LogConfig(interval=0)), "--log.interval 0"),
    ],
)
def test_impossible_values(config, flag):
    assert error_of(config.check).startswith(flag)


def test_intervals_follow_the_length_of_the_run():
    assert [TrainConfig(env_steps=n).checkpoint_interval() for n in (10, 10**6, 10**9)] == [5_000, 50_000, 100_000]
    assert [TrainConfig(env_steps=n).log_interval() for n in (10, 10**6, 10**9)] == [1_000, 10_000, 50_000]
    assert TrainConfig(checkpoint=CheckpointConfig(interval=0)).checkpoint_interval() == 0


def test_algorithms_by_name():
    assert find_algorithm("a2c").__name__ == "A2C"
    assert "nearest: a2c" in error_of(find_algorithm, "a2")
    assert "no module" in error_of(find_algorithm, "no_such_module:Thing")
    assert "nearest: A2C" in error_of(find_algorithm, "accel_rl.algos.a2c:A2")
    assert "not a subclass" in error_of(find_algorithm, "json:dumps")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--env-steps", "ten"], "--env-steps: 'ten' is no whole number"),
        (["--learning-rate", "x"], "--algo.learning-rate: 'x' is no number"),
        (["--seed"], "--seed: the value is missing"),
        (["--wandb", "online2"], "--wandb online2: must be one of disabled, offline, online; nearest: online, offline"),
        (["--cores", "a"], "--sampler.cores: a is no value of this option; see --help"),
        (["--double"], "unknown option --double: this algorithm has no such setting; dqn, c51, rainbow have it"),
        (["--pretrained", "x"], "unknown option --pretrained: use --init (run or model)"),
    ],
)
def test_a_wrong_value_is_named_with_its_flag(argv, line):
    assert error_of(train, *argv) == line


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nothing_there", "No module named 'nothing_there'"),
        ("def f(:", "SyntaxError: invalid syntax (broken_NUMBER.py, line 1)"),
        ("x = 1\ny = x / 0", "ZeroDivisionError: division by zero, FOLDER/broken_NUMBER.py, line 2"),
    ],
)
def test_an_error_in_a_users_module_names_the_line(tmp_path, monkeypatch, text, why):
    name = f"broken_{len(text)}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    why = why.replace("broken_NUMBER", name).replace("FOLDER", str(tmp_path))
    assert error_of(find_algorithm, f"{name}:X") == f"algorithm '{name}:X': it cannot be imported ({why})"


def test_the_program_is_named_once(capsys):
    assert main(["train", "ppo", "pong"]) == 2
    assert capsys.readouterr().err.startswith("accel-rl train: unexpected argument 'pong': a game is --game pong")
